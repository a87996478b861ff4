package jobs

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go change.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore Outcome

// Outcome is the result of commands on jobs.
type Outcome struct {
	EvalID         string
	JobModifyIndex uint64
}

// Register stores a job, its version and source, and an evaluation.
type Register struct {
	Job        *api.Job           `msg:",omitempty"`
	Submission *api.JobSubmission `msg:",omitempty" null:"allowed"`
	EvalID     string             `msg:",omitempty"`
	Priority   int                `msg:",omitempty"`
	// CheckIndex registers only if the job's modify index is JobModifyIndex, 0 for a new job.
	CheckIndex     bool   `msg:",omitempty"`
	JobModifyIndex uint64 `msg:",omitempty"`
	KeepCounts     bool   `msg:",omitempty"`
	KeepResources  bool   `msg:",omitempty"`
	// Versions is how many versions are kept.
	Versions int `msg:",omitempty"`
	// CountMax bounds what the job asks for when counts were kept; 0 asks nothing.
	CountMax int `msg:",omitempty"`
}

// Deregister stops a job, or forgets it with Purge.
type Deregister struct {
	Namespace       string `msg:",omitempty"`
	JobID           string `msg:",omitempty"`
	Purge           bool   `msg:",omitempty"`
	EvalID          string `msg:",omitempty"`
	Priority        int    `msg:",omitempty"`
	NoShutdownDelay bool   `msg:",omitempty"`
	// Force stops it also where volumes need a CSI plugin of it.
	Force bool `msg:",omitempty"`
}

// Evaluate makes a new evaluation of a job.
type Evaluate struct {
	Namespace       string `msg:",omitempty"`
	JobID           string `msg:",omitempty"`
	EvalID          string `msg:",omitempty"`
	ForceReschedule bool   `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Register{} })
	r.Register(func() fsm.Command { return &Deregister{} })
	r.Register(func() fsm.Command { return &Evaluate{} })
	r.Register(func() fsm.Command { return &Stability{} })
	r.Register(func() fsm.Command { return &Reversal{} })
	r.Register(func() fsm.Command { return &Tag{} })
	r.Register(func() fsm.Command { return &Scale{} })
	r.Register(func() fsm.Command { return &Dispatch{} })
	r.Register(func() fsm.Command { return &Launch{} })
}

// Kind implements [fsm.Command].
func (*Register) Kind() fsm.Kind { return fsm.KindJobRegister }

// Kind implements [fsm.Command].
func (*Deregister) Kind() fsm.Kind { return fsm.KindJobDeregister }

// Kind implements [fsm.Command].
func (*Evaluate) Kind() fsm.Kind { return fsm.KindJobEvaluate }

// Apply stores the job. The version counts up only when the specification changed.
func (c *Register) Apply(tx *state.Txn) (any, error) {
	j := c.Job
	old := tx.Job(j.Namespace, j.ID)
	if err := c.allowed(tx, old); err != nil {
		return nil, err
	}
	keep(j, old, c.KeepCounts, c.KeepResources)
	if c.CountMax > 0 {
		if err := rules.Excess(j, c.CountMax); err != nil {
			return nil, fault.Wrap(fault.Invalid, fmt.Errorf("job %q: %w", j.ID, err))
		}
	}
	ledger.Store(tx, j, old, c.Submission)
	ledger.Prune(tx, j, c.Versions)
	out := &Outcome{JobModifyIndex: j.JobModifyIndex}
	if !ledger.Parent(j) {
		out.EvalID = c.EvalID
		tx.PutEval(ledger.Evaluation(tx, j, c.EvalID, api.TriggerJobRegister, c.Priority))
	}
	return out, nil
}

func (c *Register) allowed(tx *state.Txn, old *api.Job) error {
	if err := ledger.Placed(tx, c.Job); err != nil {
		return err
	}
	if err := ledger.SameType(old, c.Job); err != nil {
		return err
	}
	if err := ledger.Needed(tx, old, c.Job); err != nil || !c.CheckIndex {
		return err
	}
	switch {
	case old == nil && c.JobModifyIndex != 0:
		return fault.New(fault.Conflict, "%s %d: job does not exist", EnforceIndexPrefix, c.JobModifyIndex)
	case old != nil && c.JobModifyIndex == 0:
		return fault.New(fault.Conflict, "%s 0: job already exists", EnforceIndexPrefix)
	case old != nil && old.JobModifyIndex != c.JobModifyIndex:
		return fault.New(fault.Conflict, "%s %d: job exists with conflicting job modify index: %d", EnforceIndexPrefix, c.JobModifyIndex, old.JobModifyIndex)
	}
	return nil
}

// EnforceIndexPrefix begins the error of a registration whose index is not the current one; clients
// look for it.
const EnforceIndexPrefix = "Enforcing job modify index"

// keep takes counts and resources over from the stored job.
func keep(j, old *api.Job, counts, resources bool) {
	if old == nil || old.Stop {
		return
	}
	for _, g := range j.TaskGroups {
		before := old.Group(g.Name)
		if before == nil {
			continue
		}
		if counts {
			g.Count = before.Count
		}
		if resources {
			keepResources(g, before)
		}
	}
}

func keepResources(g, before *api.TaskGroup) {
	were := make(map[string]*api.Resources, len(before.Tasks))
	for _, t := range before.Tasks {
		were[t.Name] = t.Resources
	}
	for _, t := range g.Tasks {
		if r, ok := were[t.Name]; ok {
			t.Resources = r
		}
	}
}

// Apply stops the job. Its allocations are stopped by the evaluation; their claims follow them. A job
// that is not there is stopped already.
func (c *Deregister) Apply(tx *state.Txn) (any, error) {
	old := tx.Job(c.Namespace, c.JobID)
	if old == nil {
		return &Outcome{}, nil
	}
	if !c.Force {
		if err := ledger.Needed(tx, old, nil); err != nil {
			return nil, err
		}
	}
	out := &Outcome{JobModifyIndex: tx.Index(), EvalID: c.EvalID}
	if c.Purge {
		tx.DeleteJob(c.Namespace, c.JobID)
	} else if !old.Stop {
		j := *old
		j.Stop, j.JobModifyIndex, j.Version = true, tx.Index(), old.Version+1
		j.SubmitTime = tx.Now().UnixNano() // of the version that stops; collection counts from it
		tx.PutJob(&j)
		version := j
		tx.PutJobVersion(&version)
		if source := tx.JobSubmission(old.Namespace, old.ID, old.Version); source != nil {
			tx.PutJobSubmission(j.Namespace, j.ID, j.Version, source)
		}
	}
	if c.NoShutdownDelay {
		skipShutdownDelay(tx, old)
	}
	if !ledger.Parent(old) {
		tx.PutEval(ledger.Evaluation(tx, old, c.EvalID, api.TriggerJobDeregister, c.Priority))
	} else {
		out.EvalID = ""
	}
	return out, nil
}

// skipShutdownDelay makes the tasks of a job stop without their shutdown delay, including those that are already in it.
func skipShutdownDelay(tx *state.Txn, j *api.Job) {
	var running []*api.Allocation
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if !a.ClientTerminal() {
			running = append(running, a)
		}
	}
	for _, a := range running {
		next := *a
		next.DesiredTransition.NoShutdownDelay = true
		next.AllocModifyIndex = tx.Index()
		tx.PutAlloc(&next)
	}
}

// Apply makes the evaluation.
func (c *Evaluate) Apply(tx *state.Txn) (any, error) {
	j := tx.Job(c.Namespace, c.JobID)
	if j == nil {
		return nil, fault.New(fault.NotFound, "job not found: there is no %q in namespace %q", c.JobID, c.Namespace)
	}
	if ledger.Parent(j) {
		return nil, fault.New(fault.Invalid, "job %q is periodic or parameterized: only its children can be evaluated", c.JobID)
	}
	if c.ForceReschedule {
		force(tx, j)
	}
	tx.PutEval(ledger.Evaluation(tx, j, c.EvalID, api.TriggerJobRegister, 0))
	return &Outcome{EvalID: c.EvalID, JobModifyIndex: j.JobModifyIndex}, nil
}

// force lets failed allocations be replaced although their policy is used up.
func force(tx *state.Txn, j *api.Job) {
	var failed []*api.Allocation
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if a.ClientStatus == api.AllocClientStatusFailed && a.NextAllocation == "" {
			failed = append(failed, a)
		}
	}
	for _, a := range failed {
		next := *a
		next.DesiredTransition.ForceReschedule = true
		tx.PutAlloc(&next)
	}
}
