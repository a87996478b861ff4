package httpapi

import "github.com/open-nomad/open-nomad/api/fault"

var reloadRoutes = []route{
	{method: "PUT", pattern: "/v1/agent/reload", serve: agentReload},
}

// agentReload does what SIGHUP does, and tells how it went.
func agentReload(c *call) (any, error) {
	if c.Reload == nil {
		return nil, fault.New(fault.Unimplemented, "this agent cannot reload its configuration")
	}
	return nil, c.Reload()
}
