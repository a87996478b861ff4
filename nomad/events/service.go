package events

import (
	"context"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// waitMax bounds the wait for events of one call.
const waitMax = time.Minute

// Config is what the service needs.
type Config struct {
	State *state.Store
	// Buffer has the events; nil refuses subscriptions.
	Buffer *Buffer
	// ID is the id of this server.
	ID string
}

// Service serves subscribers.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service { return &Service{c} }

// Handlers are the methods of this service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{wire.EventRead.Handle(s.Read)}
}

// Read returns the events after a cursor. It waits until there are some, for at most MaxWait.
func (s *Service) Read(ctx context.Context, r *api.EventsRequest) (*api.EventsResponse, error) {
	if s.Buffer == nil {
		return nil, fault.New(fault.Invalid, "the event broker is not enabled on this server: remove enable_event_broker = false from its configuration")
	}
	f := &filter{namespace: r.Namespace, text: strings.Join(r.Topics, "\n")}
	if f.namespace == "" {
		f.namespace = api.DefaultNamespace
	}
	var err error
	if f.topics, err = parse(r.Topics); err != nil {
		return nil, err
	}
	f.rights = access.Of(ctx).Rights
	if !f.permitted() {
		return nil, access.ErrDenied
	}
	if r.Cursor.Event < 0 {
		return nil, fault.New(fault.Invalid, "event %d of the cursor is negative", r.Cursor.Event)
	}
	out := &api.EventsResponse{Cursor: r.Cursor}
	if r.Cursor == (api.EventCursor{}) {
		out.Cursor = s.Buffer.start(s.ID, r.MinIndex)
		return out, nil
	}
	wait := r.MaxWait
	if wait <= 0 || wait > waitMax {
		wait = waitMax
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		found, err := s.next(bounded, out.Cursor)
		switch {
		case bounded.Err() != nil && ctx.Err() == nil:
			return out, nil // a heartbeat
		case err != nil:
			return nil, err
		}
		// The call may have waited: what the token permits is compared with the events as late as possible.
		if f.rights = access.Of(ctx).Rights; !f.permitted() {
			return nil, access.ErrDenied
		}
		out.Cursor.Server, out.Cursor.Line = s.ID, found.line
		err = cpulimit.Short(ctx, func() error {
			out.Data, out.Cursor = s.Buffer.shared(found.batches, f, out.Cursor)
			return nil
		})
		if err != nil || len(out.Data) > 0 {
			return out, err
		}
	}
}

// found are batches and the line of the buffer that they are from.
type found struct {
	batches []*batch
	line    uint64
}

// next waits for batches after a cursor. When a row of the access tables changes, or the token expires, the call is admitted
// again.
func (s *Service) next(ctx context.Context, at api.EventCursor) (found, error) {
	expiry := access.Expiry(ctx)
	for {
		var w *state.Watcher
		var changed <-chan struct{}
		if access.Enabled(ctx) {
			w = s.State.Watch(access.Tables...)
			changed = w.C()
		}
		stop := func() {
			if w != nil {
				w.Stop()
			}
		}
		if err := access.Again(ctx); err != nil {
			stop()
			return found{}, err
		}
		batches, line, more, err := s.Buffer.after(s.ID, at)
		if err != nil || len(batches) > 0 {
			stop()
			return found{batches, line}, err
		}
		select {
		case <-more:
		case <-changed:
		case <-expiry:
			expiry = nil
		case <-ctx.Done():
			stop()
			return found{}, ctx.Err()
		}
		stop()
	}
}
