package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// scalingEventsMax is how many events of a group are kept.
const scalingEventsMax = 20

// Bounds of scaling events, all of which are one row.
const (
	// scalingEventsSum bounds the events of all groups, unless these are more.
	scalingEventsSum = 5000
	// messageMax and metaMax bound a message, and a meta in JSON, in bytes.
	messageMax = 1 << 10
	metaMax    = 4 << 10
)

// brief refuses an event that takes much memory.
func brief(r *api.JobScaleRequest) error {
	if n := len(r.Message); n > messageMax {
		return fault.New(fault.Invalid, "the message of a scaling event has %d bytes, at most %d are possible", n, messageMax)
	}
	meta, err := json.Marshal(r.Meta)
	if err != nil {
		return fault.New(fault.Invalid, "meta of a scaling event: %w", err)
	}
	if n := len(meta); n > metaMax {
		return fault.New(fault.Invalid, "the meta of a scaling event has %d bytes, at most %d are possible", n, metaMax)
	}
	return nil
}

// Apply changes the count with an evaluation and records the event.
func (c *Scale) Apply(tx *state.Txn) (any, error) {
	j := tx.Job(c.Namespace, c.JobID)
	if j == nil {
		return nil, ledger.Missing(c.Namespace, c.JobID)
	}
	g := j.Group(c.Group)
	if g == nil {
		return nil, fault.New(fault.Invalid, "task group %q specified for scaling does not exist in job", c.Group)
	}
	if c.JobModifyIndex != 0 && c.JobModifyIndex != j.JobModifyIndex {
		return nil, fault.New(fault.Conflict, "%s %d: job exists with conflicting job modify index: %d", EnforceIndexPrefix, c.JobModifyIndex, j.JobModifyIndex)
	}
	e := &api.ScalingEvent{
		Count: c.Count, PreviousCount: int64(g.Count), Error: c.Error, Message: c.Message, Meta: c.Meta,
		Time: tx.Now().UnixNano(), CreateIndex: tx.Index(),
	}
	out := &Outcome{JobModifyIndex: j.JobModifyIndex}
	if c.Count != nil {
		if err := c.fits(tx, j, g); err != nil {
			return nil, err
		}
		next := resized(j, c.Group, int(*c.Count))
		if err := ledger.Needed(tx, j, next); err != nil {
			return nil, err
		}
		ledger.Store(tx, next, j, tx.JobSubmission(j.Namespace, j.ID, j.Version))
		ledger.Prune(tx, next, c.Versions)
		out.JobModifyIndex = next.JobModifyIndex
		if !ledger.Parent(next) {
			out.EvalID, e.EvalID = c.EvalID, &c.EvalID
			tx.PutEval(ledger.Evaluation(tx, next, c.EvalID, api.TriggerScaling, 0))
		}
	}
	record(tx, j, c.Group, e)
	return out, nil
}

// fits refuses a count that the group cannot have, or not now. A smaller one is a step to what is allowed.
func (c *Scale) fits(tx *state.Txn, j *api.Job, g *api.TaskGroup) error {
	count, total := *c.Count, max(0, min(*c.Count, rules.AllocsMax+1))
	fewer := count < int64(g.Count)
	for _, other := range j.TaskGroups {
		if other != g {
			total += int64(other.Count)
		}
	}
	p := g.Scaling
	switch {
	case count < 0:
		return fault.New(fault.Invalid, "group %q: count %d is negative", g.Name, count)
	case j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch:
		return fault.New(fault.Invalid, "group %q: a %s job runs once per node and cannot be scaled", g.Name, j.Type)
	case p != nil && count < p.Min:
		return fault.New(fault.Invalid, "group count was less than scaling policy minimum: %d < %d", count, p.Min)
	case p != nil && count > p.Max:
		return fault.New(fault.Invalid, "group count was greater than scaling policy maximum: %d > %d", count, p.Max)
	case !fewer && c.CountMax > 0 && (count > int64(c.CountMax) || total > int64(c.CountMax)):
		return fault.New(fault.Invalid, "group %q: with count %d the job asks for more than %d allocations", g.Name, count, c.CountMax)
	}
	for d := range tx.DeploymentsByJob(j.Namespace, j.ID) {
		if d.JobCreateIndex == j.CreateIndex && underway(d) {
			return fault.New(fault.Invalid, "job scaling blocked due to active deployment")
		}
	}
	return nil
}

// underway reports whether a deployment has not ended.
func underway(d *api.Deployment) bool {
	switch d.Status {
	case api.DeploymentStatusFailed, api.DeploymentStatusSuccessful, api.DeploymentStatusCancelled:
		return false
	}
	return true
}

// resized is the job with another count of a group.
func resized(j *api.Job, group string, count int) *api.Job {
	next := *j
	next.TaskGroups = make([]*api.TaskGroup, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		next.TaskGroups[i] = g
		if g.Name == group {
			other := *g
			other.Count = count
			next.TaskGroups[i] = &other
		}
	}
	return &next
}

// record puts the event before the others of the group.
func record(tx *state.Txn, j *api.Job, group string, e *api.ScalingEvent) {
	next := &api.JobScalingEvents{Namespace: j.Namespace, JobID: j.ID, Groups: map[string][]*api.ScalingEvent{}}
	if old := tx.JobScaling(j.Namespace, j.ID); old != nil {
		next.Groups = maps.Clone(old.Groups)
	}
	all := append([]*api.ScalingEvent{e}, next.Groups[group]...)
	next.Groups[group] = all[:min(len(all), scalingEventsMax)]
	forget(next, j)
	tx.PutJobScaling(next)
}

// forget drops the events of groups that the job does not have any more, and the oldest of each group where all
// together are too many.
func forget(all *api.JobScalingEvents, j *api.Job) {
	has := make(map[string]bool, len(j.TaskGroups))
	for _, g := range j.TaskGroups {
		has[g.Name] = true
	}
	maps.DeleteFunc(all.Groups, func(group string, _ []*api.ScalingEvent) bool { return !has[group] })
	each := max(1, scalingEventsSum/max(1, len(all.Groups)))
	for group, events := range all.Groups {
		all.Groups[group] = events[:min(len(events), each)]
	}
}

// Scale changes the count of a group, or only records an event.
func (s *Service) Scale(ctx context.Context, r *api.JobScaleRequest) (*api.JobRegisterResponse, error) {
	ns, group := namespace(r.Namespace), r.Target["Group"]
	switch {
	case r.JobID == "":
		return nil, fault.New(fault.Invalid, "JobID must be specified")
	case group == "":
		return nil, fault.New(fault.Invalid, "missing task group name for scaling action")
	case r.Error && r.Count != nil:
		return nil, fault.New(fault.Invalid, "scaling action should not contain count if error is true")
	case r.Target["Job"] != "" && r.Target["Job"] != r.JobID:
		return nil, fault.New(fault.Invalid, "job ID in payload did not match URL")
	case s.closed():
		return nil, fault.New(fault.Denied, registrationOff)
	}
	if err := brief(r); err != nil {
		return nil, err
	}
	c := &Scale{
		Namespace: ns, JobID: r.JobID, Group: group, Count: r.Count, Message: r.Message, Error: r.Error, Meta: r.Meta,
		EvalID: s.evalID(ctx), CountMax: s.Limits.Counts(), Versions: s.Config.Versions,
	}
	res, err := s.judged(ctx, ns, r.JobID, func(old *api.Job) (fsm.Command, error) {
		c.JobModifyIndex = r.JobModifyIndex
		if r.Count == nil || old == nil || old.Group(group) == nil || r.JobModifyIndex != 0 && r.JobModifyIndex != old.JobModifyIndex {
			return c, nil
		}
		c.JobModifyIndex = old.JobModifyIndex
		g := old.Group(group)
		if err := c.fits(s.State.Read(), old, g); err != nil || *r.Count <= int64(g.Count) { // what is wrong with fewer was so before
			return c, err
		}
		if err := permitted(ctx, old); err != nil {
			return c, err
		}
		if err := s.withinNamespace(old); err != nil {
			return c, err
		}
		return c, s.worse(resized(old, group, int(*r.Count)), old)
	})
	if err != nil {
		return nil, fmt.Errorf("scale job %q: %w", r.JobID, err)
	}
	return reply(res), nil
}

// ScaleStatus reads what scaling a job looks like.
func (s *Service) ScaleStatus(ctx context.Context, r *api.JobRequest) (*api.JobScaleStatusResponse, error) {
	out := &api.JobScaleStatusResponse{}
	ns := namespace(r.Namespace)
	keys := append(keysOf(ns, r.JobID), state.JobScalingKey(ns, r.JobID))
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.JobScaleStatus = scaleStatus(tx, tx.Job(ns, r.JobID))
		return nil
	})
	return out, err
}

func scaleStatus(tx *state.Txn, j *api.Job) *api.JobScaleStatus {
	if j == nil {
		return nil
	}
	out := &api.JobScaleStatus{
		JobID: j.ID, Namespace: j.Namespace, JobCreateIndex: j.CreateIndex, JobModifyIndex: j.JobModifyIndex,
		JobStopped: j.Stop, TaskGroups: map[string]*api.TaskGroupScaleStatus{},
	}
	events := tx.JobScaling(j.Namespace, j.ID)
	for _, g := range j.TaskGroups {
		row := &api.TaskGroupScaleStatus{Desired: g.Count}
		if events != nil {
			row.Events = events.Groups[g.Name]
		}
		out.TaskGroups[g.Name] = row
	}
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		row := out.TaskGroups[a.TaskGroup]
		if row == nil || a.Terminal() {
			continue
		}
		row.Placed++
		if a.ClientStatus == api.AllocClientStatusRunning {
			row.Running++
		}
		if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
			if *d.Healthy {
				row.Healthy++
			} else {
				row.Unhealthy++
			}
		}
	}
	return out
}
