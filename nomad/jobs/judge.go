package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// judged proposes what was made, and checked, for the job as it was; anew when that has changed meanwhile, which the
// command must refuse. The rules are not asked when it is applied: they may be others on each server.
func (s *Service) judged(ctx context.Context, ns, id string, command func(old *api.Job) (fsm.Command, error)) (fsm.Result, error) {
	for {
		old := s.State.Read().Job(ns, id)
		c, err := command(old)
		if err != nil {
			return fsm.Result{}, err
		}
		res, err := s.Raft.Propose(ctx, c)
		if !errors.Is(err, fault.Conflict) || modified(s.State.Read().Job(ns, id)) == modified(old) {
			return res, err
		}
	}
}

// modified is the index of the last change of a job; 0 when there is none.
func modified(j *api.Job) uint64 {
	if j == nil {
		return 0
	}
	return j.JobModifyIndex
}

// worse says what is wrong with a job and is not with the one of before: that was accepted, perhaps by other rules.
func (s *Service) worse(next, old *api.Job) error {
	known := map[string]bool{}
	for _, err := range s.check(old) {
		known[err.Error()] = true
	}
	var errs []error
	for _, err := range s.check(next) {
		if !known[err.Error()] {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fault.Wrap(fault.Invalid, fmt.Errorf("job %q: %w", next.ID, errors.Join(errs...)))
}

// keeping is the job with what it keeps of the one of before.
func keeping(j, old *api.Job, counts, resources bool) *api.Job {
	next := *j
	next.TaskGroups = make([]*api.TaskGroup, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		group := *g
		group.Tasks = make([]*api.Task, len(g.Tasks))
		for k, t := range g.Tasks {
			task := *t
			group.Tasks[k] = &task
		}
		next.TaskGroups[i] = &group
	}
	keep(&next, old, counts, resources)
	return &next
}
