package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
)

var allocRoutes = []route{
	{method: "GET", pattern: "/v1/allocations", serve: allocList},
	{method: "GET", pattern: "/v1/allocation/:id", serve: allocGet},
	{method: "PUT", pattern: "/v1/allocation/:id/stop", serve: allocStop},
}

func allocList(c *call) (any, error) {
	resources, err := boolean(c.params, "resources")
	if err != nil {
		return nil, err
	}
	states := true
	if c.params.Has("task_states") {
		if states, err = boolean(c.params, "task_states"); err != nil {
			return nil, err
		}
	}
	out, err := wire.AllocList.Call(c.ctx(), c.Servers, &api.AllocListRequest{QueryOptions: c.filters()})
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	stub := &api.AllocStub{} // of the row that is looked at
	rows, err := paged(c, out.Allocs, byTime(func(a *api.Allocation) (uint64, string) { return a.CreateIndex, a.ID }))
	if err != nil {
		return nil, err
	}
	return views[api.Allocation]{rows, func(a *api.Allocation) any {
		row.Fill(stub, a)
		v := stubView{AllocStub: stub}
		if resources {
			v.AllocatedResources = viewResources(a)
		}
		if states {
			v.TaskStates = viewStates(a.TaskStates)
		}
		return v
	}}, nil
}

func allocGet(c *call) (any, error) {
	a, meta, err := allocation(c, c.id)
	c.read(meta)
	if err != nil {
		return nil, err
	}
	return viewAlloc(a), nil
}

// allocation reads the named allocation.
func allocation(c *call, id string) (*api.Allocation, api.QueryMeta, error) {
	out, err := wire.AllocGet.Call(c.ctx(), c.Servers, &api.AllocRequest{AllocID: id, QueryOptions: c.reads()})
	if err != nil {
		return nil, api.QueryMeta{}, err
	}
	if out.Alloc == nil {
		return nil, out.QueryMeta, missing("alloc not found")
	}
	return out.Alloc, out.QueryMeta, nil
}

func allocStop(c *call) (any, error) {
	noDelay, err := boolean(c.params, "no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	reschedule, err := boolean(c.params, "reschedule")
	if err != nil {
		return nil, err
	}
	out, err := wire.AllocStop.Call(c.ctx(), c.Servers, &api.AllocStopRequest{
		AllocID: c.id, NoShutdownDelay: noDelay, Reschedule: reschedule, WriteRequest: c.writes(),
	})
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}
