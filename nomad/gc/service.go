package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits configure how often to collect and from which age; zero fields take the values of [Default].
type Limits struct {
	Interval            time.Duration `hcl:"job_gc_interval,optional"`
	EvalThreshold       time.Duration `hcl:"eval_gc_threshold,optional"`
	BatchEvalThreshold  time.Duration `hcl:"batch_eval_gc_threshold,optional"`
	JobThreshold        time.Duration `hcl:"job_gc_threshold,optional"`
	NodeThreshold       time.Duration `hcl:"node_gc_threshold,optional"`
	DeploymentThreshold time.Duration `hcl:"deployment_gc_threshold,optional"`
}

// Default returns the default limits.
func Default() Limits {
	return Limits{
		Interval: 5 * time.Minute, EvalThreshold: time.Hour, BatchEvalThreshold: 24 * time.Hour,
		JobThreshold: 4 * time.Hour, NodeThreshold: 24 * time.Hour, DeploymentThreshold: time.Hour,
	}
}

// Config is what the service needs.
type Config struct {
	State  *state.Store
	Raft   fsm.Proposer
	Log    hclog.Logger
	Limits Limits
	// Extra are steps of other services, such as volume claims; they run before nodes are forgotten.
	Extra []Step
	// Now is the clock; nil means the real one.
	Now func() time.Time
}

// Service collects garbage.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service {
	d := Default()
	for field, standard := range map[*time.Duration]time.Duration{
		&c.Limits.Interval: d.Interval, &c.Limits.EvalThreshold: d.EvalThreshold,
		&c.Limits.BatchEvalThreshold: d.BatchEvalThreshold, &c.Limits.JobThreshold: d.JobThreshold,
		&c.Limits.NodeThreshold: d.NodeThreshold, &c.Limits.DeploymentThreshold: d.DeploymentThreshold,
	} {
		if *field <= 0 {
			*field = standard
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return &Service{c}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{wire.SystemGC.Handle(s.GC), wire.SystemReconcile.Handle(s.Reconcile)}
}

// GC collects everything that has ended, of any age.
func (s *Service) GC(ctx context.Context, _ *api.WriteRequest) (*api.WriteMeta, error) {
	if err := s.collect(ctx, true); err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: s.State.Read().Index()}, nil
}

// Reconcile recomputes the job summaries.
func (s *Service) Reconcile(ctx context.Context, _ *api.WriteRequest) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, &Recount{})
	if err != nil {
		return nil, fmt.Errorf("recount job summaries: %w", err)
	}
	return &api.WriteMeta{Index: res.Index}, nil
}

// Run collects garbage from time to time while this server leads.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Limits.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.collect(ctx, false); err != nil && ctx.Err() == nil {
			s.Log.Warn("garbage was not collected completely", "error", err)
		}
	}
}

// collect runs all steps, whatever becomes of each.
func (s *Service) collect(ctx context.Context, now bool) error {
	var all []error
	for _, step := range s.steps() {
		if err := step.Run(ctx, now); err != nil {
			all = append(all, fmt.Errorf("collect %s: %w", step.Name, err))
		}
	}
	return errors.Join(all...)
}
