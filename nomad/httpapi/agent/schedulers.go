package agent

import (
	"cmp"
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Schedulers are the workers of this agent's server.
type Schedulers interface {
	// Workers returns what every worker does now.
	Workers() []*api.SchedulerWorker
	// WorkerConfig is how many workers there are, and which evaluations they take.
	WorkerConfig() (number int, kinds []string)
	// SetWorkerConfig changes that; fault.Invalid when it is not possible.
	SetWorkerConfig(ctx context.Context, number int, kinds []string) error
}

func (a Config) schedulers() (Schedulers, error) {
	if a.Schedulers == nil {
		return nil, fault.New(fault.Invalid, "Server only endpoint")
	}
	return a.Schedulers, nil
}

// serverID names this agent as the list of servers does.
func (a Config) serverID(c *endpoint.Call) string {
	return a.Name + "." + cmp.Or(c.Region, api.GlobalRegion)
}

func (a Config) schedulerWorkers(c *endpoint.Call) (any, error) {
	s, err := a.schedulers()
	if err != nil {
		return nil, err
	}
	return api.SchedulerWorkers{ServerID: a.serverID(c), Schedulers: endpoint.List(s.Workers())}, nil
}

func (a Config) schedulerWorkerConfig(c *endpoint.Call) (any, error) {
	s, err := a.schedulers()
	if err != nil {
		return nil, err
	}
	n, kinds := s.WorkerConfig()
	return api.SchedulerWorkerConfig{ServerID: a.serverID(c), NumSchedulers: n, EnabledSchedulers: endpoint.List(kinds)}, nil
}

// errWorkers is all that clients know of a number or a kind of workers that cannot be; the reason is in the log.
var errWorkers = fault.New(fault.Invalid, "Invalid request")

func (a Config) setSchedulerWorkerConfig(c *endpoint.Call) (any, error) {
	s, err := a.schedulers()
	if err != nil {
		return nil, err
	}
	var body struct {
		Number *int     `json:"num_schedulers"`
		Kinds  []string `json:"enabled_schedulers"`
	}
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, fault.New(fault.Invalid, "Invalid request: %w", err)
	}
	if body.Number == nil && body.Kinds == nil {
		return nil, fault.New(fault.Invalid, "Invalid request: it has neither num_schedulers nor enabled_schedulers")
	}
	// Fields that the body leaves out stay unchanged.
	n, kinds := s.WorkerConfig()
	if body.Number != nil {
		n = *body.Number
	}
	if body.Kinds != nil {
		kinds = body.Kinds
	}
	if err := s.SetWorkerConfig(c.Context(), n, kinds); err != nil {
		if !errors.Is(err, fault.Invalid) {
			return nil, err
		}
		c.Log.Warn("configuration of schedulers refused", "error", err)
		return nil, errWorkers
	}
	return a.schedulerWorkerConfig(c)
}
