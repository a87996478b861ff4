package allocs

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// Routes are the endpoints of allocations, of their tasks, files and logs.
func Routes() []endpoint.Route { return slices.Concat(allocRoutes, clientRoutes, fileRoutes) }

var allocRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/allocations", Serve: allocList},
	{Method: "GET", Pattern: "/v1/allocation/:id", Serve: allocGet},
	{Method: "PUT", Pattern: "/v1/allocation/:id/stop", Serve: allocStop},
	{Method: "GET", Pattern: "/v1/node/:id/allocations", Serve: nodeAllocations},
}

func allocList(c *endpoint.Call) (any, error) {
	resources, err := c.Bool("resources")
	if err != nil {
		return nil, err
	}
	states := true
	if c.Params.Has("task_states") {
		if states, err = c.Bool("task_states"); err != nil {
			return nil, err
		}
	}
	out, err := endpoint.ReadRows(c, wire.AllocList, &api.AllocListRequest{QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	stub := &api.AllocStub{} // of the row that is being encoded
	return encode.Views(out.Allocs, func(a *api.Allocation) any {
		row.Fill(stub, a)
		v := stubView{AllocStub: stub}
		if resources {
			v.AllocatedResources = view.Given(a)
		}
		if states {
			v.TaskStates = viewStates(a.TaskStates)
		}
		return v
	}), nil
}

func allocGet(c *endpoint.Call) (any, error) {
	a, meta, err := allocation(c, c.ID, false)
	c.SetRead(meta)
	if err != nil {
		return nil, err
	}
	return view.Alloc(a), nil
}

// allocation reads the named allocation; locate is enough to find it on its node.
func allocation(c *endpoint.Call, id string, locate bool) (*api.Allocation, api.QueryMeta, error) {
	out, err := wire.AllocGet.Call(c.Context(), c.Servers, &api.AllocRequest{AllocID: id, Locate: locate, QueryOptions: c.Query})
	if err != nil {
		return nil, api.QueryMeta{}, err
	}
	if out.Alloc == nil {
		return nil, out.QueryMeta, endpoint.Missing("alloc not found")
	}
	return out.Alloc, out.QueryMeta, nil
}

func allocStop(c *endpoint.Call) (any, error) {
	noDelay, err := c.Bool("no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	reschedule, err := c.Bool("reschedule")
	if err != nil {
		return nil, err
	}
	return endpoint.Write(c, wire.AllocStop, &api.AllocStopRequest{
		AllocID: c.ID, NoShutdownDelay: noDelay, Reschedule: reschedule, WriteRequest: c.Writes(),
	})
}

func nodeAllocations(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NodeAllocations, &api.NodeRequest{NodeID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	shown := make([]*view.AllocView, 0, len(out.Allocs))
	for _, a := range out.Allocs {
		shown = append(shown, view.Alloc(a))
	}
	return shown, nil
}
