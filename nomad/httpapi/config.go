package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/httpapi/agent"
	"github.com/open-nomad/open-nomad/nomad/httpapi/audit"
)

// Config configures the HTTP server. Only Servers is required; requests for what is missing return
// an error or an empty document.
type Config struct {
	// Servers carries every server method.
	Servers wire.Caller
	// Node reaches a node; it fails with fault.Unavailable when the node is not connected.
	Node func(id string) (wire.Caller, error)
	// LocalNodeID is the id of this agent's node, or "" when it has none.
	LocalNodeID func() string
	// Self describes this agent.
	Self func() *api.AgentSelf
	// Metrics are those of this agent.
	Metrics *metrics.Recorder
	// Inspect is this agent as operators look into it; nil refuses that.
	Inspect *inspect.Agent
	// Health returns the health of this agent's server and client.
	Health func(ctx context.Context) *api.AgentHealthResponse
	// Reload reads this agent's configuration again.
	Reload func() error
	// Schedulers are the workers of this agent's server; nil where no server runs.
	Schedulers agent.Schedulers
	// ServerAddresses lists the servers that this agent's client half knows.
	ServerAddresses func() []string
	// SetServerAddresses replaces them until the servers report others; nil where no client runs.
	SetServerAddresses func([]string) error
	// Name, Region and Datacenter are those of this agent.
	Name       string
	Region     string
	Datacenter string
	// AccessControl is set when tokens decide what a caller may do.
	AccessControl bool
	// Authenticated is set for the sockets of tasks: every request needs a valid token or workload identity, also without
	// access control.
	Authenticated bool
	// Audit records requests; without sinks it does not.
	Audit audit.Config
	// OtherRegions is set when Servers forward to other regions.
	OtherRegions bool
	// Headers are added to every response.
	Headers map[string]string
	// Extra handles further path prefixes, such as "/debug/pprof/". With access control they need agent:write.
	Extra map[string]http.Handler
	// UI serves the web user interface below /ui/; nil refuses these paths.
	UI  http.Handler
	Log hclog.Logger
	// CPU are the limits of the server in the same process; nil makes new ones.
	CPU *cpulimit.Limit
	// Stall is how long a client may pause while it sends a body or receives a response; 0 means 30 seconds.
	Stall time.Duration
}

// Times of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 1 << 20
)

// Server makes the HTTP server for a handler, with limits for headers and idle connections. The handler of [New] limits
// slow bodies and slow readers; reads may block and logs may be followed.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
	}
}
