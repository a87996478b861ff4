package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var operatorRoutes = []route{
	{method: "GET", pattern: "/v1/operator/scheduler/configuration", serve: schedulerConfig},
	{method: "PUT", pattern: "/v1/operator/scheduler/configuration", serve: setSchedulerConfig},
	{method: "GET", pattern: "/v1/operator/raft/configuration", serve: raftConfiguration},
	{method: "PUT", pattern: "/v1/system/gc", serve: systemGC},
	{method: "PUT", pattern: "/v1/system/reconcile/summaries", serve: systemReconcile},
}

func schedulerConfig(c *call) (any, error) {
	q := c.reads()
	out, err := wire.OperatorSchedulerConfig.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return out, nil
}

func setSchedulerConfig(c *call) (any, error) {
	var config api.SchedulerConfiguration
	if err := c.decode(bodyBytes, &config); err != nil {
		return nil, err
	}
	req := &api.SchedulerConfigRequest{Config: &config, WriteRequest: c.writes()}
	if c.params.Has("cas") {
		n, err := number(c.params, "cas")
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "invalid cas value %q: want an index", c.params.Get("cas"))
		}
		req.CAS, config.ModifyIndex = true, uint64(n)
	}
	out, err := wire.OperatorSetSchedulerConfig.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}

func raftConfiguration(c *call) (any, error) {
	q := c.reads()
	out, err := wire.OperatorRaftConfiguration.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return out.Configuration, nil
}

func systemGC(c *call) (any, error) {
	w := c.writes()
	return emptyWrite(c)(wire.SystemGC.Call(c.ctx(), c.Servers, &w))
}

func systemReconcile(c *call) (any, error) {
	w := c.writes()
	return emptyWrite(c)(wire.SystemReconcile.Call(c.ctx(), c.Servers, &w))
}
