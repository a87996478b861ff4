package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/keyed"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Bounds of parsing strangers' job files.
const (
	parsesMax    = 2
	parseTimeout = 10 * time.Second
)

// errLate is why a parse ended that took too long.
var errLate = errors.New("parsing took too long")

// parses limits how many job files are parsed at once, for each client and in total, and for how long.
type parses struct {
	slots *keyed.Slots
	limit time.Duration
	parse func(jobspec.Input) (*api.Job, error)
}

func newParses() *parses {
	return &parses{slots: keyed.NewSlots(parsesMax, parsesMax), limit: parseTimeout, parse: jobspec.Parse}
}

// do parses a job file when a slot is free. It does not wait for a parse that takes too long or whose request ended: that
// is stopped, and keeps its slot until it has returned.
func (p *parses) do(ctx context.Context, in jobspec.Input) (*api.Job, error) {
	release, err := p.slots.Acquire(ctx, cpulimit.ClientOf(ctx))
	if err != nil {
		return nil, fault.New(fault.Exhausted, "job file: %d others are being parsed: %w", parsesMax, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, errLate)
	defer cancel()
	in.Stopped = func() bool { return ctx.Err() != nil }
	type outcome struct {
		job *api.Job
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		defer release()
		var o outcome
		defer func() {
			if r := recover(); r != nil { // nothing else recovers a panic of this goroutine
				o = outcome{nil, fault.New(fault.Internal, "the parser panicked: %v", r)}
			}
			done <- o
		}()
		o.job, o.err = p.parse(in)
	}()
	select {
	case o := <-done:
		if ctx.Err() == nil {
			return o.job, o.err
		}
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errLate) {
		return nil, fault.New(fault.Invalid, "job file: parsing took longer than %v", p.limit)
	}
	return nil, fault.New(fault.Timeout, "parse job file: %w", ctx.Err())
}

// parseJob parses a job file into JSON, with all defaults or without any.
func (p *parses) parseJob(ctx context.Context, b api.JobsParseRequest) (any, error) {
	presence := &jobspec.Presence{}
	in := jobspec.Input{Path: "input.hcl", Body: []byte(b.JobHCL), Presence: presence}
	if b.Variables != "" {
		in.VarFiles = []jobspec.File{{Path: "variables.hcl", Body: []byte(b.Variables)}}
	}
	j, err := p.do(ctx, in)
	if err != nil {
		return nil, fault.New(fault.Of(err), "Failed to parse job: %w", err)
	}
	if !b.Canonicalize {
		return presence.Source(j), nil
	}
	jobspec.Canonicalize(j)
	return presence.Canonical(j), nil
}

// serve is the endpoint.
func (p *parses) serve(c *endpoint.Call) (any, error) {
	var b api.JobsParseRequest
	if err := c.Decode(bodyMax, &b); err != nil {
		return nil, err
	}
	if b.JobHCL == "" {
		return nil, fault.New(fault.Invalid, "Job spec is empty")
	}
	j, err := p.parseJob(c.Context(), b)
	if err != nil {
		return nil, err
	}
	return j, nil
}
