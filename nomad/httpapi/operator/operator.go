package operator

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of those who run the cluster: scheduler, raft, autopilot, keys, snapshots and garbage.
func Routes() []endpoint.Route { return slices.Concat(operatorRoutes, serverRoutes, keyringRoutes) }

var operatorRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/operator/scheduler/configuration", Serve: schedulerConfig},
	{Method: "PUT", Pattern: "/v1/operator/scheduler/configuration", Serve: setSchedulerConfig},
	{Method: "GET", Pattern: "/v1/operator/raft/configuration", Serve: raftConfiguration},
	{Method: "PUT", Pattern: "/v1/system/gc", Serve: systemGC},
	{Method: "PUT", Pattern: "/v1/system/reconcile/summaries", Serve: systemReconcile},
}

func schedulerConfig(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.OperatorSchedulerConfig, &c.Query)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func setSchedulerConfig(c *endpoint.Call) (any, error) {
	var config api.SchedulerConfiguration
	if err := c.Decode(endpoint.BodyMax, &config); err != nil {
		return nil, err
	}
	req := &api.SchedulerConfigRequest{Config: &config, WriteRequest: c.Writes()}
	if c.Params.Has("cas") {
		n, err := c.Int("cas")
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "invalid cas value %q: want an index", c.Params.Get("cas"))
		}
		req.CAS, config.ModifyIndex = true, uint64(n)
	}
	return endpoint.Write(c, wire.OperatorSetSchedulerConfig, req)
}

func raftConfiguration(c *endpoint.Call) (any, error) {
	out, err := wire.OperatorRaftConfiguration.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Configuration, nil
}

func systemGC(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.SystemGC, new(c.Writes()))
}

func systemReconcile(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.SystemReconcile, new(c.Writes()))
}
