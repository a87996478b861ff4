package keyring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// patience is how long a leader looks for the wrapping key of the active key before it considers a new one.
	patience    = 30 * time.Second
	retry       = time.Second
	callTimeout = 5 * time.Second
)

// Run decrypts the root keys, with wrapping keys of external services or other servers if need be, and deletes the wrapping keys of
// deleted ones. Every server runs it.
func (s *Service) Run(ctx context.Context) error {
	line, had := uint64(0), map[string]bool{}
	for ctx.Err() == nil {
		w := s.State.Watch(table...)
		tx := s.State.Read()
		whole, has := true, map[string]bool{}
		for k := range tx.RootKeys() {
			has[k.KeyID] = true
			whole = s.hold(ctx, k) && whole
		}
		for id := range had {
			if !has[id] && tx.Line() == line { // a restore may be undone by another one
				if err := s.drop(id); err != nil {
					s.Log.Warn("the wrapping key of a deleted root key stays", "key", id, "error", err)
				}
			}
		}
		line, had = tx.Line(), has
		wait(ctx, w, whole)
	}
	return nil
}

// wait returns when something changed, and soon when something is missing.
func wait(ctx context.Context, w *state.Watcher, whole bool) {
	defer w.Stop()
	var again <-chan time.Time
	if !whole {
		t := time.NewTimer(retry)
		defer t.Stop()
		again = t.C
	}
	select {
	case <-w.C():
	case <-again:
	case <-ctx.Done():
	}
}

// hold reports whether this server can decrypt the key, if need be with the help of an external service or another server.
func (s *Service) hold(ctx context.Context, k *api.RootKey) bool {
	_, err := s.secret(k)
	if err != nil {
		if err = s.find(ctx, k); err == nil {
			_, err = s.secret(k)
		}
	}
	s.mu.Lock()
	was := s.failed[k.KeyID]
	if s.failed[k.KeyID] = err; err == nil {
		delete(s.failed, k.KeyID)
	}
	s.mu.Unlock()
	switch {
	case err != nil && was == nil && ctx.Err() == nil:
		_, whole := s.secret(k)
		s.Log.Warn("a root key cannot be decrypted", "key", k.KeyID, "state", k.State, "error", whole)
	case err == nil && was != nil:
		s.Log.Info("the root key can be decrypted again", "key", k.KeyID)
	}
	return err == nil
}

// find gets a wrapping key from an external service or another server.
func (s *Service) find(ctx context.Context, k *api.RootKey) error {
	away := s.decrypt(ctx, k)
	if away == nil && len(k.External) > 0 {
		return nil
	}
	asked := 0
	for _, address := range s.Servers() {
		if address == s.Address {
			continue
		}
		asked++
		wrapping, err := s.ask(ctx, address, k.KeyID)
		if err == nil {
			err = s.keep(k, wrapping)
		}
		if err == nil {
			return nil
		}
		s.Log.Debug("another server does not have the root key", "key", k.KeyID, "server", address, "error", err)
	}
	if asked == 0 {
		return errors.Join(away, errors.New("no other server is alive"))
	}
	return errors.Join(away, fmt.Errorf("none of %d other servers sent its wrapping key", asked))
}

func (s *Service) ask(ctx context.Context, address, id string) ([]byte, error) {
	peer, err := s.Peer(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := wire.KeyringUnlock.Call(ctx, peer, &api.RootKeyUnlockRequest{KeyID: id})
	if err != nil {
		return nil, err
	}
	return out.Unlock, nil
}

// Lead creates the first root key, and a new one when the wrapping key of the active one is lost. The leader runs it.
func (s *Service) Lead(ctx context.Context) error {
	var locked time.Time
	for ctx.Err() == nil {
		w := s.State.Watch(table...)
		key := s.State.Read().ActiveRootKey()
		usable := key != nil && s.hold(ctx, key)
		switch {
		case usable:
			locked = time.Time{}
		case key == nil:
			s.renew(ctx)
		case locked.IsZero():
			locked = time.Now()
		case time.Since(locked) >= s.Patience:
			locked = time.Now()
			if err := s.lost(ctx, key); err != nil {
				s.Log.Error("the active root key cannot be decrypted, and is not replaced; \"nomad operator root keyring rotate\" replaces it", "key", key.KeyID, "error", err)
			} else {
				s.Log.Error("no server can decrypt the active root key: a new key replaces it", "lost", key.KeyID)
				s.renew(ctx)
			}
		}
		wait(ctx, w, usable)
	}
	return nil
}

// lost returns nil when the wrapping key of a root key is lost: neither an external service nor a voter has it.
func (s *Service) lost(ctx context.Context, k *api.RootKey) error {
	for _, e := range k.External {
		return fault.New(fault.Unavailable, "keyring %q can decrypt it", e.Provider)
	}
	voters, err := s.voters()
	if err != nil {
		return err
	}
	for _, address := range voters {
		if address == s.Address {
			continue
		}
		wrapping, err := s.ask(ctx, address, k.KeyID)
		if err == nil {
			if _, err = open(k, wrapping); err == nil {
				return fault.New(fault.Unavailable, "server %s can decrypt it", address)
			}
		} else if !errors.Is(err, fault.NotFound) {
			return fault.New(fault.Unavailable, "server %s may have its wrapping key: %w", address, err)
		}
	}
	return nil
}

func (s *Service) renew(ctx context.Context) {
	if _, err := s.rotate(ctx, 0); err != nil && !errors.Is(err, fault.Conflict) && ctx.Err() == nil {
		s.Log.Warn("no root key was made", "error", err)
	}
}
