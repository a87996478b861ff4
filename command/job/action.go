package job

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/terminal"
)

// Action is "nomad job action".
func Action(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "run an action of a job in one of its tasks", Args: "<action>", Min: 1, Max: 1,
		Description: "The allocation is that of -alloc, or any running one of the job that has the action. The exit code is that of the action.",
		Flags: append(terminal.Flags(),
			&cli.StringFlag{Name: "job", Usage: "`id` of the job"},
			&cli.StringFlag{Name: "alloc", Usage: "`id` of the allocation to run the action in"}),
		Run: action,
	}.Command()
}

func action(ctx context.Context, s *session.Session) error {
	if s.String("job") == "" {
		return fault.New(fault.Invalid, "-job is needed: the job that has the action")
	}
	j, err := find.Job(ctx, s, s.String("job"))
	if err != nil {
		return err
	}
	s.Client = s.In(j.Namespace)
	alloc := s.String("alloc")
	if alloc != "" {
		stub, err := find.Alloc(ctx, s, alloc)
		if err != nil {
			return err
		}
		alloc = stub.ID
	} else if alloc, err = runningAlloc(ctx, s, j); err != nil {
		return err
	}
	a, _, err := s.Alloc(ctx, alloc, rest.Query{})
	if err != nil {
		return session.Failed("querying allocation", err)
	}
	task, err := taskWith(a, s.Arg(0), s.String("task"))
	if err != nil {
		return err
	}
	return terminal.Run(ctx, s, a.ID, rest.ExecOptions{Job: j.ID, Action: s.Arg(0), Task: task})
}

// runningAlloc finds a running allocation of a group that has the action.
func runningAlloc(ctx context.Context, s *session.Session, j *api.JobStub) (string, error) {
	actions, err := s.JobActions(ctx, j.ID)
	if err != nil {
		return "", session.Failed("querying actions", err)
	}
	name, group, task := s.Arg(0), s.String("group"), s.String("task")
	fits := func(in string) bool {
		return (group == "" || in == group) && slices.ContainsFunc(actions, func(a *api.JobAction) bool {
			return a.Name == name && a.TaskGroupName == in && (task == "" || a.TaskName == task)
		})
	}
	if !slices.ContainsFunc(actions, func(a *api.JobAction) bool { return fits(a.TaskGroupName) }) {
		return "", fault.New(fault.NotFound, "job %q has no such action %q; it has: %s", j.ID, name, actionNames(actions))
	}
	allocs, _, err := s.JobAllocations(ctx, j.ID, false, rest.Query{})
	if err != nil {
		return "", session.Failed("querying allocations", err)
	}
	for _, a := range allocs {
		if a.ClientStatus == api.AllocClientStatusRunning && fits(a.TaskGroup) {
			return a.ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "job %q has no running allocation with the action %q", j.ID, name)
}

func actionNames(actions []*api.JobAction) string {
	var names []string
	for _, a := range actions {
		names = append(names, a.Name+" (task "+a.TaskName+")")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// taskWith returns the task of an allocation that has an action.
func taskWith(a *api.Allocation, action, task string) (string, error) {
	var names []string
	if g := a.Group(); g != nil {
		for _, t := range g.Tasks {
			if has := slices.ContainsFunc(t.Actions, func(x *api.Action) bool { return x.Name == action }); has && (task == "" || t.Name == task) {
				names = append(names, t.Name)
			}
		}
	}
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		return "", fault.New(fault.NotFound, "no task of allocation %s has the action %q", a.ID, action)
	}
	return "", fault.New(fault.Invalid, "the action %q is in several tasks: choose one of %s with -task", action, strings.Join(names, ", "))
}
