package inspect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// secondsMax bounds how long processors are profiled.
	secondsMax = 60
	// profileMax bounds a profile in bytes.
	profileMax = 16 << 20
)

// Profile takes a profile of the agent.
func (a *Agent) Profile(ctx context.Context, r *api.AgentProfileRequest) (*api.AgentProfileResponse, error) {
	if err := a.allowed(); err != nil {
		return nil, err
	}
	seconds := cmp.Or(r.Seconds, 1)
	if seconds < 0 || seconds > secondsMax {
		return nil, fault.New(fault.Invalid, "seconds is %d: 1 to %d are possible", r.Seconds, secondsMax)
	}
	var out bounded
	var err error
	text := r.Debug > 0
	switch r.Profile {
	case "cmdline":
		out.WriteString(strings.Join(os.Args, "\x00"))
		text = true
	case "profile":
		err = a.during(ctx, seconds, func() error { return pprof.StartCPUProfile(&out) }, pprof.StopCPUProfile)
	case "trace":
		err = a.during(ctx, seconds, func() error { return trace.Start(&out) }, trace.Stop)
	default:
		p := pprof.Lookup(r.Profile)
		if p == nil {
			return nil, fault.New(fault.NotFound, "Pprof profile not found profile: %.60q", r.Profile)
		}
		if r.GC > 0 && r.Profile == "heap" {
			runtime.GC()
		}
		err = p.WriteTo(&out, r.Debug)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("take profile %s: %w", r.Profile, err)
	case out.over > 0:
		return nil, fault.New(fault.TooLarge, "profile %s has %d bytes, at most %d are sent: take it for fewer seconds", r.Profile, out.Len()+out.over, profileMax)
	}
	return &api.AgentProfileResponse{AgentID: a.conf.ID, Text: text, Payload: out.Bytes()}, nil
}

// bounded keeps a profile up to profileMax and counts the bytes over it.
type bounded struct {
	bytes.Buffer
	over int
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > profileMax {
		b.over += len(p)
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// during runs a profiler for some seconds.
func (a *Agent) during(ctx context.Context, seconds int, start func() error, stop func()) error {
	if !a.profiling.TryLock() {
		return fault.New(fault.Exhausted, "another profile of this agent is taken: try again when it is done")
	}
	defer a.profiling.Unlock()
	if err := start(); err != nil {
		return fault.Wrap(fault.Exhausted, err)
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
