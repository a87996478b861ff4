package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// LearnLimit records until when the node gets no more of the plugin's volumes than it has, not counting the external
// volume that the driver refused for its limit.
func LearnLimit(tx *state.Txn, plugin, external, node string, until int64) {
	n := tx.Node(node)
	if n == nil {
		return
	}
	past := slices.DeleteFunc(slices.Collect(tx.ClaimsByNode(node)), func(c *api.VolumeClaim) bool { return c.State == api.ClaimWaiting })
	here := volumesOn(tx, plugin, node, past)
	delete(here, external)
	limit(tx, n, plugin, &api.CSILimit{Volumes: int64(len(here)), Until: until})
}

// LiftLimit notes that the node takes more of the plugin's volumes after all.
func LiftLimit(tx *state.Txn, plugin, node string) {
	if n := tx.Node(node); n != nil && n.CSILimits[plugin] != nil {
		limit(tx, n, plugin, nil)
	}
}

// ExpireLimits forgets the expired limits of nodes.
func ExpireLimits(tx *state.Txn) {
	var over []*api.Node
	for n := range tx.Nodes() {
		if len(n.CSILimits) > 0 {
			over = append(over, n)
		}
	}
	for _, n := range over {
		next := *n
		next.CSILimits = maps.Clone(n.CSILimits)
		maps.DeleteFunc(next.CSILimits, func(_ string, l *api.CSILimit) bool { return !tx.Now().Before(Until(tx, l, tx.Now())) })
		if len(next.CSILimits) < len(n.CSILimits) {
			tx.PutNode(&next)
		}
	}
}

// Until is when a limit is forgotten: at once where its time is further ahead than any, by a clock that was fast.
func Until(tx *state.Txn, l *api.CSILimit, now time.Time) time.Time {
	at := time.Unix(0, l.Until)
	if at.Sub(now) > LimitExpiry {
		return now
	}
	return at
}

// limit puts the limit of one plugin; nil takes it away.
func limit(tx *state.Txn, n *api.Node, plugin string, l *api.CSILimit) {
	next := *n
	next.CSILimits = maps.Clone(n.CSILimits)
	if next.CSILimits == nil {
		next.CSILimits = map[string]*api.CSILimit{}
	}
	next.CSILimits[plugin] = l
	if l == nil {
		delete(next.CSILimits, plugin)
	}
	tx.PutNode(&next)
}
