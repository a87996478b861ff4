package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// withoutCommands are the drivers that cannot run commands inside their tasks. Servers do not know other drivers: the node
// reports those.
var withoutCommands = []string{"qemu"}

// serviceCheck checks a check of a service of a group, or of one of its tasks.
func (c *check) serviceCheck(at string, g *api.TaskGroup, of *api.Task, s *api.Service, k *api.ServiceCheck) {
	c.oneOf(k.Type, []string{"http", "tcp", "grpc", "script"}, "%s: check type", at)
	c.oneOf(k.OnUpdate, []string{"", "require_healthy", "ignore_warnings", "ignore"}, "%s: check on_update", at)
	c.wrong(k.Type == "http" && k.Path == "", "%s: a check of type http needs a path", at)
	c.wrong(k.Type != "script" && (k.Command != "" || len(k.Args) > 0), "%s: command and args are for checks of type script, not %s", at, k.Type)
	c.wrong(k.Type != "grpc" && (k.GRPCService != "" || k.GRPCUseTLS), "%s: grpc_service and grpc_use_tls are for checks of type grpc, not %s", at, k.Type)
	c.wrong(k.Interval < time.Second || k.Timeout < time.Second, "%s: check interval %v and timeout %v must be at least 1s", at, k.Interval, k.Timeout)
	if k.Type == "script" {
		c.script(at, g, of, s, k)
	}
}

// script checks a check that is a program in a task.
func (c *check) script(at string, g *api.TaskGroup, of *api.Task, s *api.Service, k *api.ServiceCheck) {
	c.wrong(k.Command == "", "%s: a check of type script needs a command", at)
	for _, text := range append([]string{k.Command}, k.Args...) {
		c.wrong(strings.ContainsRune(text, 0), "%s: the command or an argument of a check contains a NUL byte", at)
	}
	name := k.TaskName
	if name == "" && of == nil {
		name = s.TaskName
	}
	task := of
	if name != "" {
		task = g.Task(name)
	}
	switch {
	case name == "" && task == nil:
		c.wrong(true, "%s: a check of type script needs the task that it runs in: set task", at)
	case task == nil:
		c.wrong(true, "%s: a check of type script: task %q is not a task of the group", at, name)
	case slices.Contains(withoutCommands, task.Driver):
		c.wrong(true, "%s: a check of type script: driver %s of task %q does not run commands in its tasks", at, task.Driver, task.Name)
	}
}
