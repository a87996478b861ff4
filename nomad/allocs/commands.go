package allocs

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore Outcome

// Outcome is the result of commands on allocations.
type Outcome struct {
	Evals []string
}

// UpdateClient takes over the client half of allocations. Each names its node in NodeID; those that
// are unknown or run elsewhere are skipped, and so is a report that was sent before the one that is known.
type UpdateClient struct {
	Allocs []*api.Allocation `msg:",omitempty"`
	Seed   string            `msg:",omitempty"`
}

// Transition asks something of a running allocation and evaluates its job.
type Transition struct {
	AllocID    string                `msg:",omitempty"`
	Transition api.DesiredTransition `msg:",omitempty"`
	EvalID     string                `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &UpdateClient{} })
	r.Register(func() fsm.Command { return &Transition{} })
}

// Kind implements [fsm.Command].
func (*UpdateClient) Kind() fsm.Kind { return fsm.KindAllocUpdate }

// Kind implements [fsm.Command].
func (*Transition) Kind() fsm.Kind { return fsm.KindAllocTransition }

// Apply stores the client half and what follows from it.
func (c *UpdateClient) Apply(tx *state.Txn) (any, error) {
	out := &Outcome{}
	evaluated := map[[2]string]bool{}
	sheet := tally.New(tx)
	for _, report := range c.Allocs {
		old := tx.Alloc(report.ID)
		if old == nil || old.NodeID != report.NodeID || late(old, report) {
			continue
		}
		next := merged(tx, old, report)
		tx.PutAlloc(next)
		sheet.AllocChanged(old, next)
		if old.ClientStatus == next.ClientStatus {
			continue
		}
		if err := ledger.AllocChanged(tx, next); err != nil {
			return nil, err
		}
		key := [2]string{next.Namespace, next.JobID}
		if e := follow(tx, old, next, c.Seed); e != nil && !evaluated[key] {
			evaluated[key] = true
			tx.PutEval(e)
			out.Evals = append(out.Evals, e.ID)
		}
		for _, j := range needed(tx, old, next) {
			if key := [2]string{j.Namespace, j.ID}; !evaluated[key] {
				evaluated[key] = true
				e := evaluation(tx, j, fsm.DerivedID(c.Seed, j.Namespace, j.ID), api.TriggerNodeUpdate)
				tx.PutEval(e)
				out.Evals = append(out.Evals, e.ID)
			}
		}
	}
	sheet.Write()
	return out, nil
}

// late reports whether a report was sent before the one that is known: by way of a server that was cut off or frozen it may
// come after it, when others lead.
func late(old, report *api.Allocation) bool {
	return report.ReportProcess != "" && report.ReportProcess == old.ReportProcess && report.ReportNumber < old.ReportNumber
}

// merged takes the client half from the report and everything else from the record. A terminal
// allocation does not come back to life.
func merged(tx *state.Txn, old, report *api.Allocation) *api.Allocation {
	next := *old
	next.ModifyTime = tx.Now().UnixNano()
	if !old.ClientTerminal() || report.ClientTerminal() {
		next.ClientStatus, next.ClientDescription = report.ClientStatus, report.ClientDescription
	}
	next.TaskStates = report.TaskStates
	next.ReportProcess, next.ReportNumber = report.ReportProcess, report.ReportNumber
	if report.NetworkStatus != nil {
		next.NetworkStatus = report.NetworkStatus
	}
	withHealth(tx, &next, report)
	if old.ClientStatus != next.ClientStatus &&
		(old.ClientStatus == api.AllocClientStatusUnknown || next.ClientStatus == api.AllocClientStatusUnknown) {
		next.AllocStates = append(append([]*api.AllocState(nil), old.AllocStates...),
			&api.AllocState{Field: "client_status", Value: next.ClientStatus, Time: tx.Now()})
	}
	return &next
}

// follow makes the evaluation that a change of client status calls for: a failure wants a
// replacement, and so does an end that nobody asked for, of what was to go on; a node's return, a decision between the original and its replacement.
func follow(tx *state.Txn, old, next *api.Allocation, seed string) *api.Evaluation {
	j := tx.Job(next.Namespace, next.JobID)
	if j == nil {
		return nil
	}
	var trigger string
	switch {
	case old.ClientStatus == api.AllocClientStatusUnknown && next.ClientStatus != api.AllocClientStatusLost:
		trigger = api.TriggerReconnect
	case next.ClientStatus == api.AllocClientStatusFailed && next.DesiredStatus == api.AllocDesiredStatusRun:
		trigger = api.TriggerRetryFailedAlloc
	case next.ClientStatus == api.AllocClientStatusComplete && next.DesiredStatus == api.AllocDesiredStatusRun && isToGoOn(j, next):
		trigger = api.TriggerRetryFailedAlloc
	default:
		return nil
	}
	return evaluation(tx, j, fsm.DerivedID(seed, j.Namespace, j.ID), trigger)
}

// needed lists the jobs that run the CSI plugins of an allocation which has ended, where its node needs them still and nothing
// on it runs them: its own job may be stopped, or have nothing more to do there.
func needed(tx *state.Txn, old, next *api.Allocation) (jobs []*api.Job) {
	g, n := next.Group(), tx.Node(next.NodeID)
	if old.ClientTerminal() || !next.ClientTerminal() || g == nil || n == nil || !feasible.RunsPlugin(g) || !feasible.NeedsPlugin(tx, n, g) {
		return nil
	}
	for a := range tx.AllocsByNode(n.ID) {
		if !a.Terminal() && feasible.SharesPlugin(a.Group(), g) {
			return nil
		}
	}
	for _, t := range g.Tasks {
		if t.CSIPluginConfig == nil {
			continue
		}
		for j := range tx.JobsByPlugin(t.CSIPluginConfig.ID) {
			if !j.Stop && (j.Type == api.JobTypeService || j.Type == api.JobTypeSystem) && !slices.Contains(jobs, j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// isToGoOn reports whether another allocation is to continue the work of the allocation, which ended successfully.
func isToGoOn(j *api.Job, a *api.Allocation) bool {
	if j.Type == api.JobTypeService || j.Type == api.JobTypeSystem {
		return true
	}
	return reconcile.StoppedByClient(a)
}

func evaluation(tx *state.Txn, j *api.Job, id, trigger string) *api.Evaluation {
	now := tx.Now().UnixNano()
	return &api.Evaluation{
		ID: id, Namespace: j.Namespace, JobID: j.ID, Priority: j.Priority, Type: j.Type,
		TriggeredBy: trigger, JobModifyIndex: j.JobModifyIndex, Status: api.EvalStatusPending,
		CreateTime: now, ModifyTime: now,
	}
}

// Apply marks the allocation and evaluates its job.
func (c *Transition) Apply(tx *state.Txn) (any, error) {
	old := tx.Alloc(c.AllocID)
	if old == nil {
		return nil, missing(c.AllocID)
	}
	next := *old
	next.DesiredTransition = c.Transition
	next.ModifyTime = tx.Now().UnixNano()
	if c.Transition.NoShutdownDelay { // it may be in its delay
		next.AllocModifyIndex = tx.Index()
	}
	tx.PutAlloc(&next)
	j := tx.Job(old.Namespace, old.JobID)
	if j == nil {
		j = old.Job
	}
	if j == nil {
		return nil, fault.New(fault.Conflict, "allocation %q has no job to evaluate", c.AllocID)
	}
	e := evaluation(tx, j, c.EvalID, api.TriggerAllocStop)
	tx.PutEval(e)
	return &Outcome{Evals: []string{e.ID}}, nil
}

func missing(id string) error { return fault.New(fault.NotFound, "alloc %q not found", id) }
