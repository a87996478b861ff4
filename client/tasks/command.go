package tasks

import (
	"context"
	"fmt"
	"io"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// eventExec is the event of a command that a user runs in the task.
const eventExec = "Exec"

// Command is a command that can be run in the running attempt of a task.
type Command struct {
	Args []string
	// OnNode is set when the task sees the files of the node.
	OnNode bool
	// Run runs the command, see [driver.Execer].
	Run func(context.Context, *driver.Command) (int, error)
	// Started records an event of the task. By names the user, "" when it is not known.
	Started func(by string)
}

// Command prepares a command in a running task, or, when action is not empty, that action of the task.
func (g *Group) Command(name string, args []string, action string) (*Command, error) {
	if t := g.task(name); t != nil {
		return t.command(args, action)
	}
	return nil, fault.New(fault.NotFound, "unknown task name %q", name)
}

func (t *task) command(args []string, action string) (*Command, error) {
	d, id, env, err := t.running()
	if err != nil {
		return nil, err
	}
	caps := d.Capabilities()
	runner, ok := d.(driver.Execer)
	if !ok || !caps.Exec {
		return nil, fault.New(fault.Invalid, "task %q: driver %s does not run commands in its tasks", t.name, d.Name())
	}
	if action != "" {
		if args, err = t.action(action, d, env); err != nil {
			return nil, err
		}
	}
	if len(args) == 0 || args[0] == "" {
		return nil, fault.New(fault.Invalid, "task %q: the command is empty: give a program", t.name)
	}
	return &Command{
		Args: args, OnNode: caps.Isolation == driver.IsolationNone || caps.Isolation == "",
		Run: func(ctx context.Context, c *driver.Command) (int, error) { return runner.Exec(ctx, id, c) },
		Started: func(by string) {
			what := fmt.Sprintf("Command %q", args[0])
			if action != "" {
				what = fmt.Sprintf("Action %q", action)
			}
			if by != "" {
				what += " run by " + by
			} else {
				what += " run by a user"
			}
			t.emit(message(eventExec, what))
		},
	}, nil
}

// running returns how to reach the running attempt and its environment, which is nil for one of an earlier agent process.
func (t *task) running() (driver.Driver, string, *taskenv.Env, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.driver == nil || t.rec.State.State != api.TaskStateRunning {
		return nil, "", nil, fault.New(fault.Conflict, "Task not running")
	}
	return t.driver, t.id, t.env, nil
}

// action returns the command of an action of the present job, with the variables of the running attempt. The environment of
// an attempt of an earlier agent process is made again, without its tokens and secrets.
func (t *task) action(name string, d driver.Driver, env *taskenv.Env) ([]string, error) {
	for _, a := range t.present().Actions {
		if a.Name != name {
			continue
		}
		args, err := t.replaced(d, env, append([]string{a.Command}, a.Args...))
		if err != nil {
			return nil, fault.New(fault.Conflict, "action %q of task %q: %w", name, t.name, err)
		}
		return args, nil
	}
	return nil, fault.New(fault.NotFound, "task %q has no action %q", t.name, name)
}

// replaced returns args with the variables of the running attempt; env is nil for one of an earlier agent process.
func (t *task) replaced(d driver.Driver, env *taskenv.Env, args []string) ([]string, error) {
	if env == nil {
		spec := t.present()
		again := &attempt{spec: spec, driver: d, alloc: t.g.present(), cred: &credentials{}}
		if len(spec.Secrets) > 0 {
			again.cred.Secrets = map[string]string{} // so that references to them are errors
		}
		t.makeEnv(again)
		env = again.env
	}
	env = env.Fresh()
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = env.Replace(arg)
	}
	return out, env.Unknown()
}

// RunScript runs a program with its arguments in the running attempt of a task and returns its exit code. References in args
// are replaced. Standard output and error are written to out. When ctx ends, the program is killed and the error is that of ctx.
func (g *Group) RunScript(ctx context.Context, name string, args []string, out io.Writer) (int, error) {
	t := g.task(name)
	if t == nil {
		return 0, fault.New(fault.NotFound, "unknown task name %q", name)
	}
	d, _, env, err := t.running()
	if err != nil {
		return 0, err
	}
	if args, err = t.replaced(d, env, args); err != nil {
		return 0, fault.New(fault.Conflict, "script of task %q: %w", name, err)
	}
	c, err := t.command(args, "")
	if err != nil {
		return 0, err
	}
	return c.Run(ctx, &driver.Command{Args: c.Args, Stdout: out, Stderr: out})
}

// task returns the task with the name, or nil.
func (g *Group) task(name string) *task {
	for _, t := range g.tasks {
		if t.name == name {
			return t
		}
	}
	return nil
}
