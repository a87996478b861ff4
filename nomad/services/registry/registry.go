// Package registry computes which instances of services an allocation offers.
//
// An instance follows from the allocation and its node as the servers have them, and is written by the transaction that
// changes the allocation: it exists while the allocation runs and is to run. So the instances of a stopped task, a lost node or
// an older version of a job end with the change that is their reason, and no node has to withdraw them.
package registry

import (
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

// Provider is the provider of the services that the servers register.
const Provider = "nomad"

// Offers reports whether a group has services.
func Offers(g *api.TaskGroup) bool {
	return g != nil && (len(g.Services) > 0 || slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return len(t.Services) > 0 }))
}

// Of returns the instances that an allocation offers now. The node is that of the allocation.
func Of(a *api.Allocation, n *api.Node) (out []*api.ServiceRegistration) {
	g := a.Group()
	if !Offers(g) || n == nil || a.DesiredStatus != api.AllocDesiredStatusRun || a.ClientStatus != api.AllocClientStatusRunning {
		return nil
	}
	add := func(s *api.Service, of string, task *api.Task) {
		if s.Provider == Provider || s.Provider == "" {
			out = append(out, instance(a, n, s, of, task))
		}
	}
	if serving(a, g) {
		for _, s := range g.Services {
			task := g.Task(s.TaskName)
			if task == nil {
				task = &api.Task{}
			}
			add(s, "group-"+g.Name, task)
		}
	}
	for _, t := range g.Tasks {
		if running(a, t.Name) {
			for _, s := range t.Services {
				add(s, t.Name, t)
			}
		}
	}
	return out
}

func running(a *api.Allocation, task string) bool {
	s := a.TaskStates[task]
	return s != nil && s.State == api.TaskStateRunning
}

// serving reports whether the main tasks of a group do their work: one runs, and none is still to be started.
func serving(a *api.Allocation, g *api.TaskGroup) bool {
	runs := false
	for _, t := range g.Tasks {
		if t.Lifecycle != nil && t.Lifecycle.Hook != "" {
			continue
		}
		s := a.TaskStates[t.Name]
		if s == nil || s.State == api.TaskStatePending {
			return false
		}
		runs = runs || s.State == api.TaskStateRunning
	}
	return runs
}

func instance(a *api.Allocation, n *api.Node, s *api.Service, of string, task *api.Task) *api.ServiceRegistration {
	var env *taskenv.Env
	replace := func(text string) string {
		if !strings.Contains(text, "${") {
			return text
		}
		if env == nil {
			env = taskenv.New(taskenv.Input{Alloc: a, Task: task, Node: n})
		}
		return env.Replace(text)
	}
	tags := s.Tags
	if a.DeploymentStatus != nil && a.DeploymentStatus.Canary && len(s.CanaryTags) > 0 {
		tags = s.CanaryTags
	}
	label := replace(s.PortLabel)
	out := &api.ServiceRegistration{
		ServiceName: replace(s.Name), Namespace: a.Namespace, NodeID: a.NodeID, Datacenter: n.Datacenter, JobID: a.JobID, AllocID: a.ID,
		Tags: make([]string, 0, len(tags)),
	}
	for _, tag := range tags {
		out.Tags = append(out.Tags, replace(tag))
	}
	out.ID = "_nomad-task-" + a.ID + "-" + of + "-" + out.ServiceName + "-" + label
	out.Address, out.Port = endpoint(a, n, task.Name, label, s.AddressMode)
	if s.Address != "" {
		out.Address = replace(s.Address)
	}
	return out
}

// endpoint returns the address and the port that a label or a number stands for; no label is the address of the node.
// The address modes of an allocation's own network are for ports within it.
func endpoint(a *api.Allocation, n *api.Node, task, label, mode string) (string, int) {
	p := a.Port(task, label)
	port, _ := strconv.Atoi(label)
	switch own := mode == api.AddressModeAlloc || mode == api.AddressModeAlloc6; {
	case own && p != nil:
		return a.OwnAddress(mode), p.Inside()
	case own:
		return a.OwnAddress(mode), port
	case p != nil:
		return p.HostIP, p.Value
	}
	return n.Address(), port
}
