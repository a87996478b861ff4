package httpapi

import (
	"cmp"
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

var schedulerRoutes = []route{
	{method: "GET", pattern: "/v1/agent/schedulers", serve: schedulerWorkers},
	{method: "GET", pattern: "/v1/agent/schedulers/config", serve: schedulerWorkerConfig},
	{method: "PUT", pattern: "/v1/agent/schedulers/config", serve: setSchedulerWorkerConfig},
}

// Schedulers are the workers of this agent's server.
type Schedulers interface {
	// Workers tells what every worker does now.
	Workers() []*api.SchedulerWorker
	// WorkerConfig is how many workers there are, and which evaluations they take.
	WorkerConfig() (number int, kinds []string)
	// SetWorkerConfig changes that; fault.Invalid when it is not possible.
	SetWorkerConfig(ctx context.Context, number int, kinds []string) error
}

func (c *call) schedulers() (Schedulers, error) {
	if c.Schedulers == nil {
		return nil, fault.New(fault.Invalid, "Server only endpoint")
	}
	return c.Schedulers, nil
}

// serverID names this agent as the list of servers does.
func (c *call) serverID() string { return c.Name + "." + cmp.Or(c.Region, api.GlobalRegion) }

func schedulerWorkers(c *call) (any, error) {
	s, err := c.schedulers()
	if err != nil {
		return nil, err
	}
	return api.SchedulerWorkers{ServerID: c.serverID(), Schedulers: list(s.Workers())}, nil
}

func schedulerWorkerConfig(c *call) (any, error) {
	s, err := c.schedulers()
	if err != nil {
		return nil, err
	}
	n, kinds := s.WorkerConfig()
	return api.SchedulerWorkerConfig{ServerID: c.serverID(), NumSchedulers: n, EnabledSchedulers: list(kinds)}, nil
}

// errWorkers is all that clients know of a number or a kind of workers that cannot be; the reason is in the log.
var errWorkers = fault.New(fault.Invalid, "Invalid request")

func setSchedulerWorkerConfig(c *call) (any, error) {
	s, err := c.schedulers()
	if err != nil {
		return nil, err
	}
	var body struct {
		Number *int     `json:"num_schedulers"`
		Kinds  []string `json:"enabled_schedulers"`
	}
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, fault.New(fault.Invalid, "Invalid request: %w", err)
	}
	if body.Number == nil && body.Kinds == nil {
		return nil, fault.New(fault.Invalid, "Invalid request: it says neither num_schedulers nor enabled_schedulers")
	}
	// What the body does not say stays.
	n, kinds := s.WorkerConfig()
	if body.Number != nil {
		n = *body.Number
	}
	if body.Kinds != nil {
		kinds = body.Kinds
	}
	if err := s.SetWorkerConfig(c.ctx(), n, kinds); err != nil {
		if !errors.Is(err, fault.Invalid) {
			return nil, err
		}
		c.Log.Warn("configuration of schedulers refused", "error", err)
		return nil, errWorkers
	}
	return schedulerWorkerConfig(c)
}
