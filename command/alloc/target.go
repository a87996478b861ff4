package alloc

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// target finds the allocation that an argument names; with -job any running one of a job.
func target(ctx context.Context, s *session.Session) (*api.Allocation, error) {
	id := s.Arg(0)
	if s.Bool("job") {
		a, err := anyOf(ctx, s, id)
		if err != nil {
			return nil, err
		}
		id = a.ID
		s.Client = s.In(a.Namespace)
	} else {
		stub, err := find.Alloc(ctx, s, id)
		if err != nil {
			return nil, err
		}
		id = stub.ID
		s.Client = s.In(stub.Namespace)
	}
	a, _, err := s.Alloc(ctx, id, rest.Query{})
	if err != nil {
		return nil, session.Failed("querying allocation", err)
	}
	return a, nil
}

// anyOf picks an allocation of a job, a running one when there is one.
func anyOf(ctx context.Context, s *session.Session, job string) (*api.AllocStub, error) {
	j, err := find.Job(ctx, s, job)
	if err != nil {
		return nil, err
	}
	allocs, _, err := s.In(j.Namespace).JobAllocations(ctx, j.ID, false, rest.Query{})
	if err != nil {
		return nil, session.Failed("querying allocations", err)
	}
	group := s.String("group")
	var running, rest []*api.AllocStub
	for _, a := range allocs {
		switch {
		case group != "" && a.TaskGroup != group:
		case a.ClientStatus == api.AllocClientStatusRunning:
			running = append(running, a)
		default:
			rest = append(rest, a)
		}
	}
	if len(running) == 0 {
		running = rest
	}
	if len(running) == 0 {
		return nil, fault.New(fault.NotFound, "job %q has no allocations", j.ID)
	}
	return running[rand.IntN(len(running))], nil //nolint:gosec // any will do
}

// task names the task of an allocation: the flag, the second argument, or the only one.
func task(s *session.Session, a *api.Allocation) (string, error) {
	return taskNamed(s, a, cmp.Or(s.String("task"), s.Arg(1)))
}

// taskNamed is the task of the name, or the only one when the name is empty.
func taskNamed(s *session.Session, a *api.Allocation, name string) (string, error) {
	names := taskNames(a)
	if name == "" {
		if len(names) == 1 {
			return names[0], nil
		}
		return "", fault.New(fault.Invalid, "Allocation %q is running the following tasks: %s\n\nPlease specify the task.", s.ID(a.ID), view.Inline(fmt.Sprint(names)))
	}
	for _, n := range names {
		if n == name {
			return n, nil
		}
	}
	return "", fault.New(fault.NotFound, "Could not find task named %q in allocation %q; it has: %s", name, s.ID(a.ID), view.Inline(fmt.Sprint(names)))
}
