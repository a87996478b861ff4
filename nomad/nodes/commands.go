package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore Outcome

// eventsKept is how many events a node remembers.
const eventsKept = 10

// Outcome is the result of commands on nodes.
type Outcome struct {
	Evals []string
	// Rollback is the mark that a registration lacks which was not taken.
	Rollback int64
	// Late is set when a registration was ignored because there is a newer one.
	Late bool
}

// RegisterNode stores a node's fingerprint.
type RegisterNode struct {
	Node *api.Node `msg:",omitempty"`
	Seed string    `msg:",omitempty"`
	// Rollback is that of [api.NodeRegisterRequest].
	Rollback int64 `msg:",omitempty"`
	// Unproved is the reason why the registration does not prove the identity of the node; empty when it does.
	Unproved string `msg:",omitempty"`
}

// SetStatus moves a node to another status and records what happened to it.
type SetStatus struct {
	NodeID string           `msg:",omitempty"`
	Status string           `msg:",omitempty"`
	Events []*api.NodeEvent `msg:",omitempty"`
	// Missed is set when the servers found the node silent.
	Missed bool `msg:",omitempty"`
	// Silence is the time since the node's last heartbeat at that moment.
	Silence time.Duration `msg:",omitempty"`
	// IdentitySigningKeyID is the root key of the identity that the node uses, if it was another one.
	IdentitySigningKeyID string `msg:",omitempty"`
	Seed                 string `msg:",omitempty"`
}

// SetEligibility makes a node eligible for placements or not.
type SetEligibility struct {
	NodeID      string `msg:",omitempty"`
	Eligibility string `msg:",omitempty"`
	Seed        string `msg:",omitempty"`
}

// PurgeNode forgets a node.
type PurgeNode struct {
	NodeID string `msg:",omitempty"`
	Seed   string `msg:",omitempty"`
}

// EvaluateNode evaluates all jobs of a node.
type EvaluateNode struct {
	NodeID string `msg:",omitempty"`
	Seed   string `msg:",omitempty"`
}

// SetDrain starts a drain, or ends it when Strategy is nil.
type SetDrain struct {
	NodeID       string             `msg:",omitempty"`
	Strategy     *api.DrainStrategy `msg:",omitempty" null:"allowed"`
	MarkEligible bool               `msg:",omitempty"`
	Meta         map[string]string  `msg:",omitempty"`
	Seed         string             `msg:",omitempty"`
}

// StepDrain asks allocations of a draining node to move, and ends the drain when nothing is left.
type StepDrain struct {
	NodeID  string   `msg:",omitempty"`
	Migrate []string `msg:",omitempty"`
	Done    bool     `msg:",omitempty"`
	// Waits lists the volumes that the drain waits for, when that has changed.
	Waits string `msg:",omitempty"`
	Seed  string `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &RegisterNode{} })
	r.Register(func() fsm.Command { return &SetStatus{} })
	r.Register(func() fsm.Command { return &SetEligibility{} })
	r.Register(func() fsm.Command { return &PurgeNode{} })
	r.Register(func() fsm.Command { return &EvaluateNode{} })
	r.Register(func() fsm.Command { return &SetDrain{} })
	r.Register(func() fsm.Command { return &StepDrain{} })
}

// Kind implements [fsm.Command].
func (*RegisterNode) Kind() fsm.Kind { return fsm.KindNodeRegister }

// Kind implements [fsm.Command].
func (*SetStatus) Kind() fsm.Kind { return fsm.KindNodeStatus }

// Kind implements [fsm.Command].
func (*SetEligibility) Kind() fsm.Kind { return fsm.KindNodeEligibility }

// Kind implements [fsm.Command].
func (*PurgeNode) Kind() fsm.Kind { return fsm.KindNodePurge }

// Kind implements [fsm.Command].
func (*EvaluateNode) Kind() fsm.Kind { return fsm.KindNodeEvaluate }

// Apply keeps what the servers wrote on the node and replaces the fingerprint.
func (c *RegisterNode) Apply(tx *state.Txn) (any, error) {
	n, old := c.Node, tx.Node(c.Node.ID)
	if old != nil && old.SecretID != n.SecretID {
		return nil, fault.New(fault.Denied, "node %q is registered with another secret: to make this a new node, remove client-id and secret-id in its state directory, or purge the other one", n.ID)
	}
	if old != nil && c.Unproved != "" && bound(tx, old) {
		return nil, unproved(n, c.Unproved)
	}
	if mark := ledger.Mark(tx, n.ID, old == nil); mark != 0 && c.Rollback != 0 && c.Rollback != mark {
		return &Outcome{Rollback: mark}, nil
	}
	if old != nil && late(n, old) {
		return &Outcome{Late: true}, nil
	}
	asked, mounts := n.Status, n.StaleMounts
	n.CSILimits = nil
	n.Status = api.NodeStatusInit
	if n.SchedulingEligibility != api.NodeSchedulingIneligible { // a new node may wait for an operator
		n.SchedulingEligibility = api.NodeSchedulingEligible
	}
	n.StatusUpdatedAt = tx.Now().Unix()
	n.Drain, n.DrainStrategy, n.LastDrain, n.Events = false, nil, nil, nil
	if old == nil {
		n.Events = withEvents(nil, tx, event("Node registered", api.NodeEventSubsystemCluster))
		n.StaleMounts = ledger.Unclaimed(tx, n)
	} else {
		n.StaleMounts = ledger.Unexplained(tx, n, old.StaleMounts)
		keep(n, old)
		n.Former = former(n, old)
		if lost(old.Status) {
			n.Status, n.StatusUpdatedAt = api.NodeStatusInit, tx.Now().Unix()
			n.Events = withEvents(n.Events, tx, event("Node re-registered", api.NodeEventSubsystemCluster))
		}
	}
	if old == nil || lost(old.Status) {
		n.Events = withEvents(n.Events, tx, forgotten(tx, n)...)
	}
	n.HostVolumes = knownHostVolumes(tx, n)
	ledger.MarkOwned(tx, n)
	ledger.Located(tx, n)
	rebooted := old != nil && old.BootID != "" && n.BootID != "" && old.BootID != n.BootID
	if asked == api.NodeStatusReady && (rebooted || !held(tx, n, tx.Now())) {
		n.Status = asked
	}
	if tx.NodePool(n.NodePool) == nil {
		tx.PutNodePool(&api.NodePool{Name: n.NodePool})
	}
	tx.PutNode(n)
	news := old == nil || old.Status != n.Status || differs(old, n)
	if rebooted {
		if err := ledger.Rebooted(tx, n.ID, mounts); err != nil {
			return nil, err
		}
	}
	reported := ledger.Reported(tx, n.ID, mounts, old == nil)
	if reported {
		assignAgain(tx, n.ID)
	}
	if news || rebooted {
		if err := ledger.NodeChanged(tx, n.ID); err != nil {
			return nil, err
		}
	}
	brings := reported || old != nil && len(n.StaleMounts) > len(old.StaleMounts) // and needs plugins
	if n.Status == api.NodeStatusReady && (news || brings) {
		return &Outcome{Evals: evaluate(tx, n, api.TriggerNodeUpdate, c.Seed)}, nil
	}
	return &Outcome{}, nil
}

// knownHostVolumes are the host volumes of a node without those that were deleted or forgotten, or are being deleted.
func knownHostVolumes(tx *state.Txn, n *api.Node) map[string]*api.HostVolumeInfo {
	gone := func(info *api.HostVolumeInfo) bool {
		if info == nil || info.ID == "" {
			return false
		}
		v := tx.HostVolume(info.Namespace, info.ID)
		return v == nil || v.Deleting || v.NodeID != n.ID
	}
	known := maps.Clone(n.HostVolumes)
	maps.DeleteFunc(known, func(_ string, info *api.HostVolumeInfo) bool { return gone(info) })
	return known
}

// forgotten are events about host volumes that a node still has and that have no row: they were deleted with -force while the
// node was away, or created after the snapshot that was restored. Their data is not removed, because it cannot be determined which.
func forgotten(tx *state.Txn, n *api.Node) (events []*api.NodeEvent) {
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		info := n.HostVolumes[name]
		if info == nil || info.ID == "" || tx.HostVolume(info.Namespace, info.ID) != nil {
			continue
		}
		events = append(events, event(fmt.Sprintf("The node has host volume %q (%s), which was forgotten: its directory %s is left. To use the data, register the directory under another name",
			name, info.ID, info.Path), "Storage"))
	}
	return events[:min(len(events), eventsKept/2)]
}

// late reports whether a registration was sent before the one that is known: by way of a server that was cut off or
// frozen it may come after it.
func late(n, known *api.Node) bool {
	return n.Process != "" && (n.Process == known.Process && n.Number < known.Number || slices.Contains(known.Former, n.Process))
}

// formerKept is how many former processes of an agent are known.
const formerKept = 4

func former(n, old *api.Node) []string {
	if old.Process == "" || old.Process == n.Process {
		return old.Former
	}
	all := append(slices.Clone(old.Former), old.Process)
	return all[max(0, len(all)-formerKept):]
}

// assignAgain sends a node its allocations again that run according to an older state, so that the node reports their
// status again: it has reported their end already, and has them as they are in that state.
func assignAgain(tx *state.Txn, node string) {
	for _, a := range slices.Collect(tx.AllocsByNode(node)) {
		if !a.ClientTerminal() {
			next := *a
			next.AllocModifyIndex = tx.Index()
			tx.PutAlloc(&next)
		}
	}
}

// keep carries over what is the servers' to write.
func keep(n, old *api.Node) {
	n.Status, n.StatusUpdatedAt, n.StatusDescription = old.Status, old.StatusUpdatedAt, old.StatusDescription
	n.SchedulingEligibility = old.SchedulingEligibility
	n.Drain, n.DrainStrategy, n.LastDrain = old.Drain, old.DrainStrategy, old.LastDrain
	n.Events = old.Events
	n.CSILimits = old.CSILimits
	n.IdentitySigningKeyID = cmp.Or(n.IdentitySigningKeyID, old.IdentitySigningKeyID)
	n.LastMissedHeartbeatIndex, n.LastAllocUpdateIndex = old.LastMissedHeartbeatIndex, old.LastAllocUpdateIndex
}

// Apply changes the node's status and notifies volumes and jobs.
func (c *SetStatus) Apply(tx *state.Txn) (any, error) {
	old := tx.Node(c.NodeID)
	if old == nil {
		return nil, missing(c.NodeID)
	}
	n, status := *old, c.Status
	if status == api.NodeStatusReady && held(tx, old, tx.Now()) {
		status = api.NodeStatusInit
	}
	moved := status != "" && status != n.Status
	if moved {
		n.Status, n.StatusUpdatedAt, n.Silence = status, tx.Now().Unix(), c.Silence
	}
	if c.Missed {
		n.LastMissedHeartbeatIndex = tx.Index()
	}
	if moved && lost(old.Status) && !lost(n.Status) {
		n.Events = withEvents(n.Events, tx, event("Node reconnected", api.NodeEventSubsystemCluster))
	}
	n.Events = withEvents(n.Events, tx, c.Events...)
	n.IdentitySigningKeyID = cmp.Or(c.IdentitySigningKeyID, n.IdentitySigningKeyID)
	tx.PutNode(&n)
	if !moved {
		return &Outcome{}, nil
	}
	if err := ledger.NodeChanged(tx, n.ID); err != nil {
		return nil, err
	}
	if n.Status == api.NodeStatusInit {
		return &Outcome{}, nil
	}
	return &Outcome{Evals: evaluate(tx, &n, api.TriggerNodeUpdate, c.Seed)}, nil
}

// Apply changes the eligibility; a node that became eligible is evaluated for system jobs.
func (c *SetEligibility) Apply(tx *state.Txn) (any, error) {
	old := tx.Node(c.NodeID)
	if old == nil {
		return nil, missing(c.NodeID)
	}
	if old.DrainStrategy != nil && c.Eligibility == api.NodeSchedulingEligible {
		return nil, fault.New(fault.Invalid, "can not set node's scheduling eligibility to eligible while it is draining")
	}
	if old.SchedulingEligibility == c.Eligibility {
		return &Outcome{}, nil
	}
	n := *old
	n.SchedulingEligibility = c.Eligibility
	text := "Node marked as ineligible for scheduling"
	if c.Eligibility == api.NodeSchedulingEligible {
		text = "Node marked as eligible for scheduling"
	}
	n.Events = withEvents(n.Events, tx, event(text, api.NodeEventSubsystemCluster))
	tx.PutNode(&n)
	if c.Eligibility == api.NodeSchedulingIneligible {
		return &Outcome{}, nil
	}
	return &Outcome{Evals: evaluate(tx, &n, api.TriggerNodeUpdate, c.Seed)}, nil
}

// Apply forgets the node; its jobs find their allocations lost.
func (c *PurgeNode) Apply(tx *state.Txn) (any, error) {
	n, asked := tx.Node(c.NodeID), ledger.Forgo(tx, c.NodeID)
	switch {
	case n == nil && asked: // an older state that was restored does not know it
		return &Outcome{}, nil
	case n == nil:
		return nil, missing(c.NodeID)
	}
	tx.DeleteNode(n.ID)
	if err := ledger.NodeChanged(tx, n.ID); err != nil {
		return nil, err
	}
	ledger.Purged(tx, n)
	return &Outcome{Evals: evaluate(tx, n, api.TriggerNodeUpdate, c.Seed)}, nil
}

// Apply evaluates the node's jobs.
func (c *EvaluateNode) Apply(tx *state.Txn) (any, error) {
	n := tx.Node(c.NodeID)
	if n == nil {
		return nil, missing(c.NodeID)
	}
	return &Outcome{Evals: evaluate(tx, n, api.TriggerNodeUpdate, c.Seed)}, nil
}

// cleanWait bounds how long a node that came back is held for its stale mounts: one that hangs keeps the node
// from its own volume only.
const cleanWait = 30 * time.Second

// held reports whether a node that was lost is not ready yet: allocations that ended meanwhile may still have
// volumes mounted.
func held(tx *state.Txn, n *api.Node, now time.Time) bool {
	if !lost(n.Status) && n.Status != api.NodeStatusInit {
		return false
	}
	since := now.Sub(time.Unix(n.StatusUpdatedAt, 0))
	ahead := since < -cleanWait // by a clock that was fast
	over := n.Status == api.NodeStatusInit && (since >= cleanWait || ahead)
	return !over && ledger.Unclean(tx, n)
}

func missing(id string) error { return fault.New(fault.NotFound, "node %q not found", id) }

func lost(status string) bool {
	return status == api.NodeStatusDown || status == api.NodeStatusDisconnected
}

func event(message, subsystem string) *api.NodeEvent {
	return &api.NodeEvent{Message: message, Subsystem: subsystem}
}

// withEvents returns the newest events, the given ones stamped and last.
func withEvents(old []*api.NodeEvent, tx *state.Txn, add ...*api.NodeEvent) []*api.NodeEvent {
	if len(add) == 0 {
		return old
	}
	all := slices.Clone(old)
	for _, e := range add {
		stamped := *e
		stamped.CreateIndex = tx.Index()
		if stamped.Timestamp.IsZero() {
			stamped.Timestamp = tx.Now()
		}
		all = append(all, &stamped)
	}
	return all[max(0, len(all)-eventsKept):]
}
