package agent

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

const (
	// monitorWait is how long a followed log is silent before an empty frame is sent.
	monitorWait = time.Second
	// rightsEvery is how often the right of a caller who follows the log of this agent is compared.
	rightsEvery = time.Second
)

// inspectRoutes are what operators see of an agent: this one, or the server or the node that the request names.
func inspectRoutes(a *inspect.Agent) []endpoint.Route {
	return []endpoint.Route{
		{Method: "GET", Pattern: "/v1/agent/monitor", Right: agentRead, Stays: true, Serve: func(c *endpoint.Call) (any, error) { return nil, monitor(c, a) }},
		{Method: "GET", Pattern: "/v1/agent/monitor/export", Right: agentRead, Stays: true, Serve: func(c *endpoint.Call) (any, error) { return nil, export(c, a) }},
		{Method: "GET", Pattern: "/v1/agent/host", Right: agentWrite, Serve: func(c *endpoint.Call) (any, error) { return host(c, a) }},
		{Method: "GET", Pattern: "/v1/agent/pprof/:id", Right: agentWrite, Serve: func(c *endpoint.Call) (any, error) { return nil, profile(c, a) }},
	}
}

// target returns the caller that reaches the server or the node of a request; nil is this agent. The id is that of the node.
func target(c *endpoint.Call) (way wire.Caller, node, server string, err error) {
	node, server = c.Params.Get("node_id"), c.Params.Get("server_id")
	switch {
	case node != "" && server != "":
		return nil, "", "", fault.New(fault.Invalid, "Cannot target node and server simultaneously")
	case server != "":
		return c.Servers, "", server, nil
	case node != "":
		way, node, err = c.ToNode(node)
		return way, node, "", err
	}
	return nil, "", "", nil
}

func host(c *endpoint.Call, here *inspect.Agent) (any, error) {
	way, node, server, err := target(c)
	if err != nil {
		return nil, err
	}
	req := &api.AgentHostRequest{NodeID: node, ServerID: server, QueryOptions: c.Query}
	var out *api.HostDataResponse
	switch {
	case way == nil:
		out, err = here.Host(c.Context())
	case node != "":
		out, err = wire.ClientAgentHost.Call(c.Context(), way, req)
	default:
		out, err = wire.AgentHost.Call(c.Context(), way, req)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func profile(c *endpoint.Call, here *inspect.Agent) error {
	way, node, server, err := target(c)
	if err != nil {
		return err
	}
	req := &api.AgentProfileRequest{NodeID: node, ServerID: server, Profile: c.ID, QueryOptions: c.Query}
	for name, into := range map[string]*int{"seconds": &req.Seconds, "debug": &req.Debug, "gc": &req.GC} {
		n, err := c.Int(name)
		if err != nil {
			return err
		}
		*into = int(n)
	}
	var out *api.AgentProfileResponse
	switch {
	case way == nil:
		out, err = here.Profile(c.Context(), req)
	case node != "":
		out, err = wire.ClientAgentProfile.Call(c.Context(), way, req)
	default:
		out, err = wire.AgentProfile.Call(c.Context(), way, req)
	}
	if err != nil {
		return err
	}
	kind := "application/octet-stream"
	if out.Text {
		kind = "text/plain; charset=utf-8"
	}
	c.W.Header().Set("Content-Type", kind)
	c.W.Header().Set("X-Content-Type-Options", "nosniff")
	c.W.WriteHeader(http.StatusOK)
	_, _ = c.W.Write(out.Payload)
	return endpoint.ErrStreamed
}

func monitor(c *endpoint.Call, here *inspect.Agent) error {
	way, node, server, err := target(c)
	if err != nil {
		return err
	}
	req := &api.AgentMonitorRequest{
		NodeID: node, ServerID: server, LogLevel: strings.ToLower(c.Params.Get("log_level")), QueryOptions: c.Query,
	}
	out := &endpoint.Frames{Call: c}
	for name, into := range map[string]*bool{"log_json": &req.LogJSON, "log_include_location": &req.IncludeLocation, "plain": &out.Plain} {
		if *into, err = c.Bool(name); err != nil {
			return err
		}
	}
	return follow(c, here, way, req, out)
}

// export sends the stored log of an agent.
func export(c *endpoint.Call, here *inspect.Agent) error {
	way, node, server, err := target(c)
	if err != nil {
		return err
	}
	req := &api.AgentMonitorRequest{NodeID: node, ServerID: server, ServiceName: c.Params.Get("service_name"), QueryOptions: c.Query}
	out := &endpoint.Frames{Call: c}
	for name, into := range map[string]*bool{"on_disk": &req.OnDisk, "follow": &req.Follow, "plain": &out.Plain} {
		if *into, err = c.Bool(name); err != nil {
			return err
		}
	}
	if since := c.Params.Get("logs_since"); since != "" {
		if req.LogsSince, err = time.ParseDuration(since); err != nil {
			return fault.New(fault.Invalid, "logs_since %.40q is not a duration such as 72h", since)
		}
	}
	if err := inspect.CheckExport(req); err != nil {
		return err
	}
	return follow(c, here, way, req, out)
}

// follow sends the pieces of a log until it ends, or until the token of the caller no longer permits it: other agents compare
// that in each call, this one every rightsEvery. Servers that cannot be reached end nothing.
func follow(c *endpoint.Call, here *inspect.Agent, way wire.Caller, req *api.AgentMonitorRequest, out *endpoint.Frames) error {
	compared := time.Now()
	for {
		var piece *api.AgentMonitorResponse
		var err error
		switch {
		case way == nil:
			if time.Since(compared) > rightsEvery {
				if err = c.Permitted(agentRead); errors.Is(err, fault.Denied) {
					return c.Broken(out.Begun(), err)
				}
				compared = time.Now()
			}
			piece, err = here.Monitor(c.Context(), req)
		case req.NodeID != "":
			piece, err = wire.ClientAgentMonitor.Call(c.Context(), way, req)
		default:
			piece, err = wire.AgentMonitor.Call(c.Context(), way, req)
		}
		if err != nil {
			return c.Broken(out.Begun(), err)
		}
		frame := api.StreamFrame{}
		if len(piece.Data) > 0 {
			frame = api.StreamFrame{Data: piece.Data, FileEvent: "log"}
		}
		if err := out.Send(frame); err != nil {
			return endpoint.ErrStreamed
		}
		if piece.Done {
			return endpoint.ErrStreamed
		}
		req.Session, req.Position, req.Wait = piece.Session, piece.Position, monitorWait // the first response begins at once
	}
}
