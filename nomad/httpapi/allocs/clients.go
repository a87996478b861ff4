package allocs

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var clientRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/client/allocation/:id/stats", Serve: clientAllocStats},
	{Method: "GET", Pattern: "/v1/client/allocation/:id/checks", Serve: clientAllocChecks},
	{Method: "GET", Pattern: "/v1/allocation/:id/checks", Serve: clientAllocChecks},
	{Method: "PUT", Pattern: "/v1/client/allocation/:id/restart", Serve: clientAllocRestart},
	{Method: "PUT", Pattern: "/v1/client/allocation/:id/signal", Serve: clientAllocSignal},
	{Method: "GET", Pattern: "/v1/client/allocation/:id/pause", Serve: clientAllocPauseState},
	{Method: "PUT", Pattern: "/v1/client/allocation/:id/pause", Serve: clientAllocPause},
	{Method: "*", Pattern: "/v1/client/allocation/:id/gc", Serve: clientAllocGC},
}

// onNode finds the node that runs the allocation of the path.
func onNode(c *endpoint.Call) (wire.Caller, *api.Allocation, error) {
	a, _, err := allocation(c, c.ID, true)
	if err != nil {
		return nil, nil, err
	}
	node, _, err := c.ToNode(a.NodeID)
	return node, a, err
}

func clientAllocStats(c *endpoint.Call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocStats.Call(c.Context(), node, &api.AllocRequest{AllocID: a.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Stats == nil {
		return nil, nil
	}
	task := c.Params.Get("task")
	if task == "" {
		// The sum over the tasks lists no devices where a task has null.
		if sum := out.Stats.ResourceUsage; sum != nil && sum.DeviceStats == nil {
			sum.DeviceStats = []*api.DeviceGroupStats{}
		}
		return out.Stats, nil
	}
	t, ok := out.Stats.Tasks[task]
	if !ok {
		return nil, fault.New(fault.NotFound, "allocation %s has no running task %q", a.ID, task)
	}
	one := *out.Stats
	one.ResourceUsage, one.Tasks = t.ResourceUsage, map[string]*api.TaskResourceUsage{task: t}
	return one, nil
}

func clientAllocChecks(c *endpoint.Call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocChecks.Call(c.Context(), node, &api.AllocRequest{AllocID: a.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Checks == nil {
		out.Checks = map[string]*api.AllocCheckStatus{}
	}
	return out.Checks, nil
}

// checkTask refuses a task name that the allocation does not have; "" means all tasks.
func checkTask(a *api.Allocation, task string) error {
	if g := a.Group(); task != "" && g != nil && g.Task(task) == nil {
		return fault.New(fault.Invalid, "unknown task name %q", task)
	}
	return nil
}

func clientAllocRestart(c *endpoint.Call) (any, error) {
	var body struct {
		TaskName string
		AllTasks bool
	}
	if err := c.DecodeMaybe(&body); err != nil {
		return nil, err
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, body.TaskName); err != nil {
		return nil, err
	}
	if _, err := wire.ClientAllocRestart.Call(c.Context(), node, &api.AllocRestartRequest{
		AllocID: a.ID, TaskName: body.TaskName, AllTasks: body.AllTasks, WriteRequest: c.Writes(),
	}); err != nil {
		return nil, err
	}
	return api.WriteMeta{}, nil
}

func clientAllocSignal(c *endpoint.Call) (any, error) {
	var body struct{ Task, Signal string }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	if _, err := wire.ClientAllocSignal.Call(c.Context(), node, &api.AllocSignalRequest{
		AllocID: a.ID, Task: body.Task, Signal: body.Signal, WriteRequest: c.Writes(),
	}); err != nil {
		return nil, err
	}
	return api.WriteMeta{}, nil
}

func clientAllocGC(c *endpoint.Call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	_, err = wire.ClientAllocGC.Call(c.Context(), node, &api.AllocRequest{AllocID: a.ID, QueryOptions: c.Query})
	return nil, err
}

func clientAllocPause(c *endpoint.Call) (any, error) {
	var body struct{ Task, ScheduleState string }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	switch body.ScheduleState {
	case api.SchedulePause, api.ScheduleRun, api.ScheduleScheduled:
	default:
		return nil, fault.New(fault.Invalid, "Not a valid task schedule state: expected pause, run or scheduled, got %.40q", body.ScheduleState)
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	if _, err := wire.ClientAllocPause.Call(c.Context(), node, &api.AllocPauseRequest{
		AllocID: a.ID, Task: body.Task, ScheduleState: body.ScheduleState, WriteRequest: c.Writes(),
	}); err != nil {
		return nil, err
	}
	return api.WriteMeta{}, nil
}

func clientAllocPauseState(c *endpoint.Call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	task := c.Params.Get("task")
	if err := checkTask(a, task); err != nil {
		return nil, err
	}
	return wire.ClientAllocPauseState.Call(c.Context(), node, &api.AllocPauseStateRequest{AllocID: a.ID, Task: task, QueryOptions: c.Query})
}
