package rpc

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Waits of blocking queries.
const (
	waitDefault = 5 * time.Minute
	waitMax     = 10 * time.Minute
)

// Block runs read on a snapshot and sets the reply's index to that of the last change of the keys.
// With q.MinIndex it runs read again until that index is greater, or q.MaxWait has passed, or another state was
// restored, whose indexes cannot be compared with the previous ones; then the last reply is returned. read must
// overwrite the reply of an earlier run. Before it runs again, and when a row of the access tables changes, the token of the
// caller is looked at again.
func Block(ctx context.Context, s *state.Store, q *api.QueryOptions, m *api.QueryMeta, keys []state.Key, read func(tx *state.Txn) error) error {
	wait, cancel := context.WithTimeout(ctx, waitOf(q))
	defer cancel()
	line := s.Read().Line()
	watched, expiry := keys, access.Expiry(ctx)
	if access.Enabled(ctx) && q.MinIndex > 0 {
		watched = slices.Concat(keys, access.Tables)
	}
	for {
		w := s.Watch(watched...)
		index := s.Touched(keys...)
		tx := s.Read()
		if err := cpulimit.Short(ctx, func() error { return read(tx) }); err != nil {
			w.Stop()
			return err
		}
		m.Index = index
		if index > q.MinIndex || q.MinIndex == 0 || tx.Line() != line {
			w.Stop()
			return nil
		}
		select {
		case <-w.C():
		case <-expiry:
			expiry = nil
		case <-wait.Done():
			w.Stop()
			return ctx.Err()
		}
		w.Stop()
		if err := access.Again(ctx); err != nil {
			return err
		}
	}
}

// waitOf adds up to a sixteenth so that many waiters do not return at the same moment.
func waitOf(q *api.QueryOptions) time.Duration {
	if q.MinIndex == 0 {
		return time.Minute
	}
	d := q.MaxWait
	if d <= 0 {
		d = waitDefault
	}
	d = min(d, waitMax)
	return d + rand.N(d/16+1)
}
