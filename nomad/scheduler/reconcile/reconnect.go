package reconcile

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// reconnect decides between allocations whose node is back and those that replaced them meanwhile: one of
// each pair stays. An allocation that its node has not reported yet is left alone, and its replacement too.
func (p *pass) reconnect() {
	if !p.wasUnknown {
		return
	}
	var newest map[string]*api.Allocation
	gone := map[*api.Allocation]bool{}
	for _, r := range p.keep {
		original := r.Allocation
		if lastUnknown(original).IsZero() || gone[original] {
			continue
		}
		if newest == nil {
			newest = p.replacements()
		}
		replacement := newest[original.Name]
		if replacement == nil || replacement == original || replacement.CreateIndex < original.CreateIndex || gone[replacement] {
			continue
		}
		if original.ClientStatus == api.AllocClientStatusUnknown {
			gone[original] = true
			p.res.Desired.Ignore++
			continue
		}
		loser := original
		if p.keepsOriginal(original, replacement) {
			loser = replacement
		}
		if original.NodeID != replacement.NodeID && p.needed(loser) { // for the volumes of its node
			if loser = other(loser, original, replacement); p.needed(loser) {
				continue
			}
		}
		gone[loser] = true
		p.stop(loser, reconnected, "")
		p.res.Desired.Reconnect++
	}
	if len(gone) > 0 {
		p.keep = slices.DeleteFunc(p.keep, func(r row) bool { return gone[r.Allocation] })
	}
}

// other is the one of two that is not a.
func other(a, one, two *api.Allocation) *api.Allocation {
	if a == one {
		return two
	}
	return one
}

// replacements are the newest kept allocations that took over a name.
func (p *pass) replacements() map[string]*api.Allocation {
	newest := map[string]*api.Allocation{}
	for _, r := range p.keep {
		a := r.Allocation
		if b := newest[a.Name]; a.PreviousAllocation != "" && (b == nil || a.CreateIndex > b.CreateIndex) {
			newest[a.Name] = a
		}
	}
	return newest
}

// keepsOriginal reports whether the original stays and its replacement goes.
func (p *pass) keepsOriginal(original, replacement *api.Allocation) bool {
	if old, fresh := p.isOlder(original), p.isOlder(replacement); old != fresh {
		return fresh // a newer version always wins
	}
	if done := p.batch && p.done(original); done || p.batch && p.done(replacement) {
		return done // whatever the group prefers: nobody needs the other one
	}
	how := strategy(p.group)
	runs := replacement.ClientStatus == api.AllocClientStatusRunning
	switch {
	case how == api.ReconcileOptionKeepOriginal:
		return true
	case how == api.ReconcileOptionKeepReplacement:
		return false
	case !runs:
		return true
	case original.ClientStatus != api.AllocClientStatusRunning:
		return false
	case how == api.ReconcileOptionLongestRunning:
		return !startOf(replacement).Before(startOf(original))
	}
	return scoreOf(original) >= scoreOf(replacement)
}

func strategy(g *api.TaskGroup) api.ReconcileOption {
	if g.Disconnect == nil || g.Disconnect.Reconcile == nil {
		return api.ReconcileOptionBestScore
	}
	return *g.Disconnect.Reconcile
}

// startOf is since when the leader of the allocation runs, or the oldest of its main tasks.
func startOf(a *api.Allocation) time.Time {
	g := a.Group()
	if g == nil {
		return time.Unix(0, a.CreateTime)
	}
	var oldest time.Time
	for _, t := range g.Tasks {
		s := a.TaskStates[t.Name]
		if s == nil || s.StartedAt.IsZero() || t.Lifecycle != nil {
			continue
		}
		if t.Leader {
			return s.StartedAt
		}
		if oldest.IsZero() || s.StartedAt.Before(oldest) {
			oldest = s.StartedAt
		}
	}
	if oldest.IsZero() {
		return time.Unix(0, a.ModifyTime)
	}
	return oldest
}

// scoreOf is how well the node of the allocation suited when it was chosen.
func scoreOf(a *api.Allocation) float64 {
	if a.Metrics == nil {
		return 0
	}
	for _, m := range a.Metrics.ScoreMetaData {
		if m.NodeID == a.NodeID {
			return m.NormScore
		}
	}
	return 0
}
