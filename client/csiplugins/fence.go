package csiplugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

const (
	// confirmWait bounds asking the servers whether an intent is still the newest.
	confirmWait = 10 * time.Second
	// confirmTries is the number of attempts to confirm an intent when replies arrive too late to count.
	confirmTries = 5
	// fencesKept is how many fences are kept before those are looked for that are not needed any more.
	fencesKept = 4096
	// fencesAsked is how many of them are asked about at once, fencesEvery how often.
	fencesAsked = 64
	fencesEvery = 10 * time.Second
	// fenceSettles is the time after a newer intent during which an older one is refused, whatever the servers reply: a
	// deposed leader has stepped down long before. After that time the leader's reply decides, because indexes go back
	// when an older snapshot is restored into a new cluster.
	fenceSettles = 10 * time.Minute
)

// fence is the newest intent of an object for which a call went out from this host.
type fence struct {
	PluginID string
	// ExternalID is empty for an object that is not a volume with an id yet.
	ExternalID string `json:",omitempty"`
	Intent     uint64
	// Call and Part are those of [api.VolumeIntentRequest]; records of earlier versions have neither.
	Call api.IntentCall `json:",omitempty"`
	Part string         `json:",omitempty"`
	// At is when the intent was seen first.
	At time.Time
}

// fences refuse calls of older intents than the newest one that was seen: calls of a deposed leader may arrive
// late. They are durable before the call goes out, and none is forgotten unless the servers have confirmed that
// its intent is not current, so that they refuse it themselves.
type fences struct {
	bucket Bucket
	mu     sync.Mutex
	seen   map[string]fence
}

func openFences(b Bucket, log hclog.Logger) (*fences, error) {
	f := &fences{bucket: b, seen: map[string]fence{}}
	if b == nil {
		return f, nil
	}
	raw, err := b.All()
	if err != nil {
		return nil, fmt.Errorf("read fences of controller calls: %w", err)
	}
	for key, value := range raw {
		var one fence
		if err := json.Unmarshal(value, &one); err != nil {
			log.Error("a fence of controller calls cannot be read: the servers alone keep late calls of its object out", "key", key, "error", err)
			continue
		}
		f.seen[key] = one
	}
	return f, nil
}

// newest returns the newest intent of an object that was seen.
func (f *fences) newest(key string) fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[key]
}

// set makes the intent the newest one of the object; it is durable when there is no error. The caller holds the
// object's turn.
func (f *fences) set(key string, next fence) error {
	next.At = time.Now()
	raw, err := json.Marshal(next)
	if err == nil && f.bucket != nil {
		err = f.bucket.Put(key, raw)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "record the intent of a controller call: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[key] = next
	return nil
}

// surplus returns some of the fences, which may not be needed any more, when there are many.
func (f *fences) surplus() map[string]fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) <= fencesKept {
		return nil
	}
	out := map[string]fence{}
	for key, one := range f.seen {
		if out[key] = one; len(out) == fencesAsked {
			break
		}
	}
	return out
}

// drop forgets a fence that is still the same.
func (f *fences) drop(key string, old fence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[key] != old || f.bucket != nil && f.bucket.Delete(key) != nil {
		return
	}
	delete(f.seen, key)
}

// pass admits a changing call if its intent is not older than the newest one seen here and the leader confirms that it
// is the newest of all. The intent is durable before the call is sent. The caller holds the object's turn.
func (s *Service) pass(ctx context.Context, key string, next fence) error {
	if next.Intent == 0 {
		return nil
	}
	newest := s.fences.newest(key)
	if next.Intent < newest.Intent && time.Since(newest.At) < fenceSettles {
		return fault.New(fault.Conflict, "the call has intent %d, which is older than intent %d", next.Intent, newest.Intent)
	}
	if next.Intent > newest.Intent {
		if err := s.fences.set(key, next); err != nil {
			return err
		}
	}
	if err := s.confirmInTime(ctx, next); err != nil {
		return fmt.Errorf("confirm intent %d: %w", next.Intent, err)
	}
	if next.Intent < newest.Intent {
		s.conf.Log.Warn("the servers have gone back to an older intent", "plugin_id", next.PluginID, "external_id", next.ExternalID,
			"intent", next.Intent, "was", newest.Intent)
		if err := s.fences.set(key, next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// confirmInTime confirms the intent with a reply that is still valid: after a slower reply another host may have
// received a newer intent.
func (s *Service) confirmInTime(ctx context.Context, f fence) error {
	for range confirmTries {
		asked := time.Now()
		if err := s.confirm(ctx, f); err != nil {
			return err
		}
		// By both clocks: the monotonic one stands still while the host sleeps, the other one may be set back.
		if now := time.Now(); now.Sub(asked) < api.ConfirmTerm && now.Round(0).Sub(asked.Round(0)) < api.ConfirmTerm {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "the servers did not confirm the call within %s in %d tries", api.ConfirmTerm, confirmTries)
}

// confirm asks the leader whether the intent is still the newest of its object. An error of class Conflict means
// that it is not; servers that do not know the question are not asked.
func (s *Service) confirm(ctx context.Context, f fence) error {
	if s.conf.Servers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confirmWait)
	defer cancel()
	_, err := wire.VolumeConfirmIntent.Call(ctx, s.conf.Servers, &api.VolumeIntentRequest{
		NodeID: s.conf.NodeID(), NodeSecret: s.conf.NodeSecret(), PluginID: f.PluginID, ExternalID: f.ExternalID, Fence: f.Intent,
		Call: f.Call, Part: f.Part,
	})
	switch {
	case err == nil, errors.Is(err, fault.Unimplemented):
		return nil
	case errors.Is(err, fault.Conflict):
		return err
	}
	return fault.New(fault.Unavailable, "cannot reach the servers: %w", err)
}

// pruneFences prunes until ctx ends.
func (s *Service) pruneFences(ctx context.Context) {
	tick := time.NewTicker(fencesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.prune(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// prune forgets fences of intents that are not current any more: the servers refuse those themselves.
func (s *Service) prune(ctx context.Context) {
	for key, f := range s.fences.surplus() {
		if err := s.confirm(ctx, f); errors.Is(err, fault.Conflict) {
			s.fences.drop(key, f)
		} else if err != nil {
			return
		}
	}
}
