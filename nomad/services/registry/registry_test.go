package registry_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/services/registry"
)

func sample() (*api.Allocation, *api.Node) {
	g := &api.TaskGroup{
		Name:     "g",
		Services: []*api.Service{{Name: "web", PortLabel: "http", Provider: "nomad", Tags: []string{"a", "${node.datacenter}"}, CanaryTags: []string{"canary"}}},
		Tasks: []*api.Task{
			{Name: "main", Services: []*api.Service{{Name: "${NOMAD_TASK_NAME}-admin", PortLabel: "9000", Provider: "nomad"}, {Name: "other", Provider: "consul"}}},
			{Name: "init", Lifecycle: &api.TaskLifecycle{Hook: "prestart"}},
		},
	}
	a := &api.Allocation{
		ID: "a1", Namespace: "default", JobID: "j", NodeID: "n1", TaskGroup: "g", Job: &api.Job{ID: "j", Name: "j", TaskGroups: []*api.TaskGroup{g}},
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
		AllocatedResources: &api.AllocatedResources{Shared: api.AllocatedSharedResources{Ports: []api.PortMapping{{Label: "http", Value: 20001, To: 80, HostIP: "10.0.0.1"}}}},
		TaskStates:         map[string]*api.TaskState{"main": {State: api.TaskStateRunning}, "init": {State: api.TaskStateDead}},
	}
	return a, &api.Node{ID: "n1", Datacenter: "dc2", Attributes: map[string]string{"unique.network.ip-address": "10.0.0.9"}}
}

func shown(list []*api.ServiceRegistration) (out []string) {
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %s %s:%d %v", r.ID, r.ServiceName, r.Address, r.Port, r.Tags))
	}
	return out
}

func TestInstancesFollowFromTheAllocation(t *testing.T) {
	web := "_nomad-task-a1-group-g-web-http web 10.0.0.1:20001 [a dc2]"
	admin := "_nomad-task-a1-main-main-admin-9000 main-admin 10.0.0.9:9000 []"
	for name, c := range map[string]struct {
		change func(*api.Allocation)
		want   []string
	}{
		"running":      {func(*api.Allocation) {}, []string{web, admin}},
		"canary":       {func(a *api.Allocation) { a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true} }, []string{"_nomad-task-a1-group-g-web-http web 10.0.0.1:20001 [canary]", admin}},
		"promoted":     {func(a *api.Allocation) { a.DeploymentStatus = &api.AllocDeploymentStatus{} }, []string{web, admin}},
		"to stop":      {func(a *api.Allocation) { a.DesiredStatus = api.AllocDesiredStatusStop }, nil},
		"lost":         {func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusLost }, nil},
		"unknown":      {func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusUnknown }, nil},
		"task restart": {func(a *api.Allocation) { a.TaskStates["main"] = &api.TaskState{State: api.TaskStatePending} }, nil},
		"task ended":   {func(a *api.Allocation) { a.TaskStates["main"] = &api.TaskState{State: api.TaskStateDead} }, nil},
		"no state yet": {func(a *api.Allocation) { a.TaskStates = nil }, nil},
		"an address":   {func(a *api.Allocation) { a.Job.TaskGroups[0].Services[0].Address = "web.example" }, []string{"_nomad-task-a1-group-g-web-http web web.example:20001 [a dc2]", admin}},
	} {
		t.Run(name, func(t *testing.T) {
			a, n := sample()
			c.change(a)
			if got := shown(registry.Of(a, n)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if a, _ := sample(); registry.Of(a, nil) != nil {
		t.Error("an allocation without its node offers something")
	}
}
