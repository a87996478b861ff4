package inspect

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Config is what an agent gives to be looked into.
type Config struct {
	// ID names the agent in replies.
	ID string
	// Log is the log of the whole agent; without an interceptor there is nothing to follow.
	Log hclog.Logger
	// LogFile is the path of the log file; empty without one.
	LogFile string
	// Debug permits profiles and the description of the host: enable_debug is set, or access control decides who may have them.
	Debug bool
}

// Agent is an agent that is looked into. A nil Agent refuses all requests.
type Agent struct {
	conf Config
	mu   sync.Mutex
	open map[string]*session
	// profiling is held while processors are profiled or a trace is taken: the runtime does one at a time.
	profiling sync.Mutex
	// describing is held while the host is described, which may hang with a mount.
	describing sync.Mutex
}

// New makes an agent that is looked into.
func New(c Config) *Agent { return &Agent{conf: c, open: map[string]*session{}} }

// allowed reports an error when profiles and descriptions of the host are refused.
func (a *Agent) allowed() error {
	switch {
	case a == nil:
		return fault.New(fault.Unimplemented, "this agent cannot be looked into")
	case !a.conf.Debug:
		return fault.New(fault.Denied, "Permission denied: the agent needs enable_debug, or access control")
	}
	return nil
}
