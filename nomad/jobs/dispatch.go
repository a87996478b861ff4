package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Instance is the result of commands that create instances of a job. EvalID is empty when it was there before.
type Instance struct {
	JobID       string
	EvalID      string
	CreateIndex uint64
}

// instance is a new job made from a parent.
func instance(p *api.Job, id string) *api.Job {
	j := *p
	j.ID, j.Name, j.ParentID = id, id, p.ID
	j.Periodic, j.ParameterizedJob = nil, nil
	j.CreateIndex, j.ModifyIndex = 0, 0
	return &j
}

// begin stores an instance with its evaluation.
func begin(tx *state.Txn, j *api.Job, evalID, trigger string) *Instance {
	ledger.Store(tx, j, nil, nil)
	tx.PutEval(ledger.Evaluation(tx, j, evalID, trigger, 0))
	return &Instance{JobID: j.ID, EvalID: evalID, CreateIndex: j.CreateIndex}
}

// Apply creates the instance. For a token that was used before it returns the existing instance.
func (c *Dispatch) Apply(tx *state.Txn) (any, error) {
	p := tx.Job(c.Namespace, c.JobID)
	if p == nil {
		return nil, ledger.Missing(c.Namespace, c.JobID)
	}
	if c.Token != "" {
		if j := tx.JobByToken(c.Namespace, c.JobID, c.Token); j != nil {
			return &Instance{JobID: j.ID, CreateIndex: j.CreateIndex}, nil
		}
	}
	if err := dispatchable(p); err != nil {
		return nil, err
	}
	if tx.Job(c.Namespace, c.InstanceID) != nil {
		return nil, fault.New(fault.Conflict, "job %q exists already", c.InstanceID)
	}
	j := instance(p, c.InstanceID)
	j.Dispatched, j.Payload, j.DispatchIdempotencyToken = true, c.Payload, c.Token
	j.Meta = maps.Clone(p.Meta)
	if j.Meta == nil {
		j.Meta = map[string]string{}
	}
	for _, k := range p.ParameterizedJob.MetaOptional { // tasks see each optional key
		if _, given := j.Meta[k]; !given {
			j.Meta[k] = ""
		}
	}
	maps.Copy(j.Meta, c.Meta)
	if c.Priority != 0 {
		j.Priority = c.Priority
	}
	return begin(tx, j, c.EvalID, api.TriggerJobRegister), nil
}

func dispatchable(p *api.Job) error {
	if p.ParameterizedJob == nil {
		return fault.New(fault.Invalid, "Specified job %q is not a parameterized job", p.ID)
	}
	if p.Stop {
		return fault.New(fault.Invalid, "Specified job %q is stopped", p.ID)
	}
	return nil
}

// tokenMax is the longest idempotency token in bytes: every instance keeps its own.
const tokenMax = 256

// Dispatch runs an instance of a parameterised job.
func (s *Service) Dispatch(ctx context.Context, r *api.JobDispatchRequest) (*api.JobDispatchResponse, error) {
	if r.JobID == "" {
		return nil, fault.New(fault.Invalid, "missing parameterized job ID")
	}
	if s.closed() {
		return nil, fault.New(fault.Denied, registrationOff)
	}
	ns := namespace(r.Namespace)
	if err := s.dispatchable(ns, r); err != nil {
		return nil, err
	}
	if err := permitted(ctx, s.State.Read().Job(ns, r.JobID)); err != nil {
		return nil, err
	}
	c := &Dispatch{
		Namespace: ns, JobID: r.JobID, InstanceID: dispatchID(r.JobID, r.IDPrefixTemplate, time.Now()), Meta: r.Meta,
		Token: r.IdempotencyToken, Priority: r.Priority, EvalID: s.evalID(ctx),
	}
	if len(r.Payload) > 0 {
		c.Payload = snappy.Encode(nil, r.Payload)
	}
	res, err := s.Raft.Propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("dispatch job %q: %w", r.JobID, err)
	}
	out := &api.JobDispatchResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if i, ok := res.Value.(*Instance); ok {
		out.DispatchedJobID, out.EvalID, out.JobCreateIndex = i.JobID, i.EvalID, i.CreateIndex
		if i.EvalID != "" {
			out.EvalCreateIndex = res.Index
		}
	}
	return out, nil
}

// dispatchable checks a request against the job. One whose token was used before is not checked: its
// answer is the instance that exists.
func (s *Service) dispatchable(ns string, r *api.JobDispatchRequest) error {
	tx := s.State.Read()
	p := tx.Job(ns, r.JobID)
	if p == nil {
		return ledger.Missing(ns, r.JobID)
	}
	if len(r.IdempotencyToken) > tokenMax || strings.ContainsFunc(r.IdempotencyToken, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fault.New(fault.Invalid, "idempotency token %.64q must have at most %d characters that can be printed", r.IdempotencyToken, tokenMax)
	}
	if r.IdempotencyToken != "" && tx.JobByToken(ns, r.JobID, r.IdempotencyToken) != nil {
		return nil
	}
	if err := dispatchable(p); err != nil {
		return err
	}
	if err := s.withinNamespace(p); err != nil {
		return err
	}
	if r.Priority != 0 && (r.Priority < 1 || r.Priority > s.Limits.PriorityMax) {
		return fault.New(fault.Invalid, "job priority %d is not between 1 and %d", r.Priority, s.Limits.PriorityMax)
	}
	if err := ids.CheckText("id prefix", r.IDPrefixTemplate); err != nil {
		return fault.Wrap(fault.Invalid, err)
	}
	if id := dispatchID(r.JobID, r.IDPrefixTemplate, time.Time{}); strings.Contains(id, " ") || len(id) > rules.IDMax {
		return fault.New(fault.Invalid, "id prefix %q makes no possible job ID", r.IDPrefixTemplate)
	}
	return fault.Wrap(fault.Invalid, rules.Dispatch(p.ParameterizedJob, r.Payload, r.Meta))
}

// dispatchID is the id of a new instance.
func dispatchID(parent, prefix string, now time.Time) string {
	parts := []string{"dispatch", prefix, fmt.Sprint(now.Unix()), uuid.NewString()[:8]}
	if prefix == "" {
		parts = slices.Delete(parts, 1, 2)
	}
	return parent + "/" + strings.Join(parts, "-")
}
