package client

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

// replacer returns a function that replaces references in the texts of the services of a task, or of the group without a task.
func (c *Client) replacer(a *api.Allocation, task string) func(string) string {
	var env *taskenv.Env
	return func(text string) string {
		if !strings.Contains(text, "${") {
			return text
		}
		if env == nil {
			spec := &api.Task{}
			if g := a.Group(); g != nil && g.Task(task) != nil {
				spec = g.Task(task)
			}
			env = taskenv.New(taskenv.Input{Alloc: a, Task: spec, Node: c.node.present(), Region: c.conf.Region})
		}
		return env.Replace(text)
	}
}
