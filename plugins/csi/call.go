package csi

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api/fault"
)

const changeDefault = 2 * time.Minute

// bound gives ctx the deadline of a call. Calls that a leader ordered have its limit, which is that of ctx;
// those that the node makes by itself, and questions about the plugin, keep their own within it.
func (c *Client) bound(ctx context.Context, rpc string) (context.Context, context.CancelFunc) {
	k := kindOf(rpc)
	if _, limited := ctx.Deadline(); limited && k != kindLearn && k != kindUse && k != kindUndo {
		return context.WithCancel(ctx)
	}
	limit, fallback := c.timeouts.Change, changeDefault
	switch {
	case rpc == "Probe":
		limit, fallback = c.timeouts.Probe, 5*time.Second
	case !k.changes():
		limit, fallback = c.timeouts.Read, 30*time.Second
	}
	if limit <= 0 {
		limit = fallback
	}
	return context.WithTimeout(ctx, limit)
}

type method[Req, Resp any] = func(context.Context, Req, ...grpc.CallOption) (*Resp, error)

// call makes one call within its deadline and explains its error. A reply whose code means success has no
// content and is not nil.
func call[Req, Resp any](ctx context.Context, c *Client, rpc string, fn method[Req, Resp], req Req) (*Resp, error) {
	ctx, cancel := c.bound(ctx, rpc)
	defer cancel()
	c.learnSecrets(req)
	f := new(fate)
	began := time.Now()
	resp, err := send(ctx, c, rpc, fn, req, f)
	if c.observe != nil {
		c.observe(rpc, status.Code(err).String(), time.Since(began))
	}
	switch {
	case err == nil && resp == nil:
		return nil, hole(rpc, "an empty reply")
	case err == nil:
		return resp, nil
	}
	if _, answered := status.FromError(err); !answered {
		return nil, err // it was never sent
	}
	said := c.explain(rpc, err, f)
	if said == nil {
		return new(Resp), nil
	}
	if said.Verdict == fault.VerdictChanged {
		c.forget()
	}
	return nil, said
}

// send makes a call. A changing call is alone with its object and does not count as ended when its caller's context
// ends: it continues for [Timeouts.Linger], and the next call for the object waits for it. So a driver that does not
// refuse overlapping calls (ABORTED) sees none of this client, unless it stays silent even longer than that; then the
// call is cancelled first.
func send[Req, Resp any](ctx context.Context, c *Client, rpc string, fn method[Req, Resp], req Req, f *fate) (*Resp, error) {
	if !kindOf(rpc).changes() {
		return fn(context.WithValue(ctx, fateKey{}, f), req)
	}
	release, err := c.turns.take(ctx, objectOf(req), rpc)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		resp *Resp
		err  error
	}
	own, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), fateKey{}, f))
	done := make(chan outcome, 1)
	go func() {
		defer release()
		defer cancel()
		resp, err := fn(own, req)
		done <- outcome{resp, err}
		if own.Err() != nil && f.sent.Load() {
			time.Sleep(min(settle, c.linger()))
		}
	}()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-ctx.Done():
	}
	if !f.sent.Load() {
		cancel()
		o := <-done
		return o.resp, o.err
	}
	timer := time.AfterFunc(c.linger(), cancel)
	context.AfterFunc(own, func() { timer.Stop() })
	c.log.Debug("csi call abandoned; the driver continues it", "method", rpc)
	return nil, status.FromContextError(ctx.Err()).Err()
}

// settle is how long the next call for the object waits after one was cancelled, because its end is unknown.
const settle = 500 * time.Millisecond

func (c *Client) linger() time.Duration {
	if c.timeouts.Linger > 0 {
		return c.timeouts.Linger
	}
	return cmp.Or(c.timeouts.Change, changeDefault) / 12
}

// objectOf names what a changing call is about: a volume, a snapshot, or a volume that has no id yet.
func objectOf(req any) string {
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		return "volume/" + r.GetVolumeId()
	case interface{ GetSourceVolumeId() string }:
		return "volume/" + r.GetSourceVolumeId()
	case interface{ GetSnapshotId() string }:
		return "snapshot/" + r.GetSnapshotId()
	case interface{ GetName() string }:
		return "create/" + r.GetName()
	}
	return ""
}

// turns lets changing calls for one object follow each other.
type turns struct {
	mu   sync.Mutex
	busy map[string]*turn
}

type turn struct {
	rpc  string
	over chan struct{}
}

func (t *turns) take(ctx context.Context, object, rpc string) (release func(), err error) {
	for {
		before, mine := t.try(object, rpc)
		if mine != nil {
			return func() { t.end(object, mine) }, nil
		}
		select {
		case <-before.over:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.Unavailable, fmt.Errorf("%s was not sent: the plugin has not ended an earlier %s of the same object: %w", rpc, before.rpc, ctx.Err()))
		}
	}
}

func (t *turns) try(object, rpc string) (before, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.busy[object]; before != nil {
		return before, nil
	}
	if t.busy == nil {
		t.busy = map[string]*turn{}
	}
	mine = &turn{rpc: rpc, over: make(chan struct{})}
	t.busy[object] = mine
	return nil, mine
}

func (t *turns) end(object string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, object)
	close(mine.over)
}

// learnSecrets remembers the secrets of a request, so that no text of the plugin reveals them.
func (c *Client) learnSecrets(req any) {
	if r, ok := req.(interface{ GetSecrets() map[string]string }); ok {
		c.secrets.Add(r.GetSecrets())
	}
	var wants []*pb.VolumeCapability
	switch r := req.(type) {
	case interface{ GetVolumeCapability() *pb.VolumeCapability }:
		wants = []*pb.VolumeCapability{r.GetVolumeCapability()}
	case interface{ GetVolumeCapabilities() []*pb.VolumeCapability }:
		wants = r.GetVolumeCapabilities()
	}
	for _, w := range wants {
		c.secrets.AddFlags(w.GetMount().GetMountFlags())
	}
}
