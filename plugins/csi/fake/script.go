package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Fault is one line of the script. The first line that fits a call is used.
type Fault struct {
	RPC string
	// Volume and Node narrow it down; empty fits all.
	Volume, Node string
	// Skip lets so many fitting calls pass; Times is how many fail after that, 0 means all.
	Skip, Times int
	// Code is the code of the reply; codes.OK lets the call work after its delay.
	Code codes.Code
	// Text is the message; empty means "injected". In it, [Quote] stands for the secrets of the call.
	Text string
	// Reply is answered instead of an error.
	Reply proto.Message
	Delay time.Duration
	// Hang waits until the caller gives up; Late does the work first. Crash ends the plugin.
	Hang, Late, Crash bool
	seen              int
}

// Quote in the text of a [Fault] is replaced by the values of the call's secrets.
const Quote = "{secrets}"

// Script adds lines to the script.
func (d *Driver) Script(faults ...Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range faults {
		d.script = append(d.script, &f)
	}
}

// Heal empties the script.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = nil
}

func (d *Driver) faultLocked(c Call) *Fault {
	for _, f := range d.script {
		if f.RPC != c.RPC || f.Volume != "" && f.Volume != c.Volume || f.Node != "" && f.Node != d.conf.NodeID && f.Node != c.Path {
			continue
		}
		f.seen++
		if f.seen > f.Skip && (f.Times == 0 || f.seen <= f.Skip+f.Times) {
			return f
		}
	}
	return nil
}

// play serves a call as scripted, in the time that it takes.
func (d *Driver) play(ctx context.Context, conf Config, c Call, f *Fault, next grpc.UnaryHandler) (resp any, err error) {
	caller := ctx
	if conf.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	work := func(ctx context.Context) (any, error) {
		if err := d.store.admit(c); err != nil {
			return nil, err
		}
		return next(ctx, c.Request)
	}
	if f == nil {
		f = &Fault{}
	}
	if f.Late {
		// The work is done although the caller will not learn of it.
		if resp, err = work(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	pace := f.Delay
	if conf.Pace != nil {
		pace += conf.Pace(c)
	}
	process := d.living(caller)
	rest(ctx, process, pace)
	switch {
	case f.Crash:
		go process.end()
		<-process.over
	case f.Hang:
		select {
		case <-caller.Done():
		case <-process.over:
		}
	}
	switch {
	case process.ended():
		return nil, status.Error(codes.Unavailable, "the plugin has crashed")
	case f.Reply != nil:
		return f.Reply, nil
	case f.Code != codes.OK:
		return nil, status.Error(f.Code, f.text(c))
	case ctx.Err() != nil || f.Hang && caller.Err() != nil:
		return nil, status.FromContextError(caller.Err()).Err()
	case f.Late:
		return resp, nil
	}
	return work(ctx)
}

func rest(ctx context.Context, process *life, pace time.Duration) {
	if pace <= 0 {
		return
	}
	t := time.NewTimer(pace)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-process.over:
	}
}

func (f *Fault) text(c Call) string {
	if f.Text == "" {
		return "injected"
	}
	return strings.ReplaceAll(f.Text, Quote, quoted(c.Request))
}

// quoted shows the secrets of a request as a careless driver prints them.
func quoted(req any) string {
	r, ok := req.(interface{ GetSecrets() map[string]string })
	if !ok || len(r.GetSecrets()) == 0 {
		return "no secrets"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(r.GetSecrets())) {
		out = append(out, fmt.Sprintf("%s=%q", k, r.GetSecrets()[k]))
	}
	return strings.Join(out, " ")
}

// everyCode has the codes of the CSI specification and of gRPC that a plugin may return, and one that is unknown.
var everyCode = []codes.Code{
	codes.Canceled, codes.Unknown, codes.InvalidArgument, codes.DeadlineExceeded, codes.NotFound, codes.AlreadyExists,
	codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange,
	codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unauthenticated, codes.Code(77),
}

// EveryFault lists one line for every code at the call: quick and after the delay, before the work and after it.
func EveryFault(rpc string, slow time.Duration) []Fault {
	var out []Fault
	for _, code := range everyCode {
		for _, late := range []bool{false, true} {
			for _, delay := range []time.Duration{0, slow} {
				out = append(out, Fault{RPC: rpc, Times: 1, Code: code, Late: late, Delay: delay})
			}
		}
	}
	return out
}
