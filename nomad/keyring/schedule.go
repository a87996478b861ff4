package keyring

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Limits configure when root keys are rotated and deleted; zero fields take the default.
type Limits struct {
	// Interval is the pause between two looks at the age of the keys; the default is 10 minutes.
	Interval time.Duration
	// Unused is how long a key has not been the active one before it is deleted; the default is one hour.
	Unused time.Duration
	// Rotation is the age at which the active key is replaced; the default is 720 hours.
	Rotation time.Duration
}

// Schedule activates prepublished keys at their time, rotates old keys and deletes unused ones. The leader runs it.
func (s *Service) Schedule(ctx context.Context) error {
	tick := time.NewTicker(s.Limits.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		w := s.State.Watch(table...)
		due := time.NewTimer(s.activate(ctx))
		select {
		case <-w.C():
		case <-due.C:
		case <-tick.C:
			if err := errors.Join(s.replaceOld(ctx), s.Collect(ctx, false)); err != nil && ctx.Err() == nil {
				s.Log.Warn("the root keys were not looked after completely", "error", err)
			}
		case <-ctx.Done():
		}
		due.Stop()
		w.Stop()
	}
	return nil
}

// activate activates the prepublished keys whose time has come and returns the time until the next one.
func (s *Service) activate(ctx context.Context) time.Duration {
	next := time.Duration(math.MaxInt64)
	for k := range s.State.Read().RootKeys() {
		if k.State != api.RootKeyPrepublished {
			continue
		}
		left := time.Until(time.Unix(0, k.PublishTime))
		if left <= 0 {
			left = retry
			switch {
			case !s.hold(ctx, k):
				s.Log.Warn("a prepublished root key does not become active: this server cannot unwrap it", "key", k.KeyID)
			default:
				if _, err := s.Raft.Propose(ctx, &ActivateKey{KeyID: k.KeyID}); err != nil {
					s.Log.Warn("a prepublished root key does not become active", "key", k.KeyID, "error", err)
				} else {
					s.Log.Info("a prepublished root key is active", "key", k.KeyID)
				}
			}
		}
		next = min(next, left)
	}
	return next
}

// replaceOld publishes the next key when the active one has half of its age, so that programs which cache the public keys know it
// when it becomes active.
func (s *Service) replaceOld(ctx context.Context) error {
	tx := s.State.Read()
	active := tx.ActiveRootKey()
	if active == nil {
		return nil
	}
	for k := range tx.RootKeys() {
		if k.State == api.RootKeyPrepublished {
			return nil
		}
	}
	since := time.Unix(0, cmp.Or(active.ActiveTime, active.CreateTime))
	if time.Since(since) < s.Limits.Rotation/2 {
		return nil
	}
	_, err := s.rotate(ctx, since.Add(s.Limits.Rotation).UnixNano())
	return err
}

// Collect deletes the former keys that nothing uses, with now of any age.
func (s *Service) Collect(ctx context.Context, now bool) error {
	var all []error
	tx := s.State.Read()
	for k := range tx.RootKeys() {
		old := now || time.Since(time.Unix(0, cmp.Or(k.RetireTime, k.CreateTime))) >= s.Limits.Unused
		if k.State != api.RootKeyInactive || !old || len(uses(tx, k)) > 0 {
			continue
		}
		_, err := s.Raft.Propose(ctx, &DeleteKey{KeyID: k.KeyID})
		switch {
		case err == nil:
			s.Log.Info("an unused root key was deleted", "key", k.KeyID)
		case !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.NotFound):
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}
