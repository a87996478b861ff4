package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var clientRoutes = []route{
	{method: "GET", pattern: "/v1/client/stats", serve: clientStats},
	{method: "*", pattern: "/v1/client/gc", serve: clientGC},
	{method: "GET", pattern: "/v1/client/allocation/:id/stats", serve: clientAllocStats},
	{method: "PUT", pattern: "/v1/client/allocation/:id/restart", serve: clientAllocRestart},
	{method: "PUT", pattern: "/v1/client/allocation/:id/signal", serve: clientAllocSignal},
	{method: "*", pattern: "/v1/client/allocation/:id/gc", serve: clientAllocGC},
}

func clientStats(c *call) (any, error) {
	node, id, err := c.node(c.params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientNodeStats.Call(c.ctx(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	return hostStatsView{HostStats: out.Stats}, nil
}

func clientGC(c *call) (any, error) {
	node, id, err := c.node(c.params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	_, err = wire.ClientNodeGC.Call(c.ctx(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.reads()})
	return nil, err
}

// onNode finds the node that runs the allocation of the path.
func onNode(c *call) (wire.Caller, *api.Allocation, error) {
	a, _, err := allocation(c, c.id)
	if err != nil {
		return nil, nil, err
	}
	node, _, err := c.node(a.NodeID)
	return node, a, err
}

func clientAllocStats(c *call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocStats.Call(c.ctx(), node, &api.AllocRequest{AllocID: a.ID, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	task := c.params.Get("task")
	if task == "" || out.Stats == nil {
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

// checkTask refuses a task name that the allocation does not have; "" means all tasks.
func checkTask(a *api.Allocation, task string) error {
	if g := a.Group(); task != "" && g != nil && g.Task(task) == nil {
		return fault.New(fault.Invalid, "unknown task name %q", task)
	}
	return nil
}

func clientAllocRestart(c *call) (any, error) {
	var body struct {
		TaskName string
		AllTasks bool
	}
	if err := c.decodeMaybe(&body); err != nil {
		return nil, err
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, body.TaskName); err != nil {
		return nil, err
	}
	if _, err := wire.ClientAllocRestart.Call(c.ctx(), node, &api.AllocRestartRequest{
		AllocID: a.ID, TaskName: body.TaskName, AllTasks: body.AllTasks, WriteRequest: c.writes(),
	}); err != nil {
		return nil, err
	}
	return api.WriteMeta{}, nil
}

func clientAllocSignal(c *call) (any, error) {
	var body struct{ Task, Signal string }
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	if _, err := wire.ClientAllocSignal.Call(c.ctx(), node, &api.AllocSignalRequest{
		AllocID: a.ID, Task: body.Task, Signal: body.Signal, WriteRequest: c.writes(),
	}); err != nil {
		return nil, err
	}
	return api.WriteMeta{}, nil
}

func clientAllocGC(c *call) (any, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	_, err = wire.ClientAllocGC.Call(c.ctx(), node, &api.AllocRequest{AllocID: a.ID, QueryOptions: c.reads()})
	return nil, err
}
