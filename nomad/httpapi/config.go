package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/agent"
)

// Config says what the HTTP server needs. Only Servers is needed; whatever else is missing answers
// with a clear error or an empty document.
type Config struct {
	// Servers carries every server method.
	Servers wire.Caller
	// Node reaches a node; it fails with fault.Unavailable when the node is not connected.
	Node func(id string) (wire.Caller, error)
	// LocalNodeID is the id of this agent's node, or "" when it has none.
	LocalNodeID func() string
	// Self describes this agent.
	Self func() *api.AgentSelf
	// Gauges are this agent's numbers by the names of metrics.
	Gauges func() map[string]float64
	// Health tells how the halves of this agent are.
	Health func(ctx context.Context) *api.AgentHealthResponse
	// Reload reads this agent's configuration again.
	Reload func() error
	// Schedulers are the workers of this agent's server; nil where no server runs.
	Schedulers agent.Schedulers
	// ServerAddresses lists the servers that this agent's client half knows.
	ServerAddresses func() []string
	// SetServerAddresses replaces them until the servers tell others; nil where no client half runs.
	SetServerAddresses func([]string) error
	// Name, Region and Datacenter are those of this agent.
	Name       string
	Region     string
	Datacenter string
	// OtherRegions says that Servers know the ways to other regions.
	OtherRegions bool
	// Headers are added to every answer.
	Headers map[string]string
	// Extra handles further path prefixes, such as "/ui/".
	Extra map[string]http.Handler
	Log   hclog.Logger
	// CPU are the limits of the server in the same process; nil makes new ones.
	CPU *wire.CPU
	// Stall is how long a client may stand still while it sends a body or takes an answer; 0 means half a minute.
	Stall time.Duration
}

// Times of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 1 << 20
)

// Server makes the HTTP server for a handler: bounded headers and idle connections. The handler of [New] bounds how
// slowly bodies come and answers are taken; reads may block and logs may be followed.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
	}
}
