package keyring

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	patience    = 30 * time.Second
	retry       = time.Second
	callTimeout = 5 * time.Second
)

// Run fetches what unwraps the root keys from other servers, and drops what unwraps deleted ones. Every server runs it.
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
					s.Log.Warn("what unwraps a deleted root key stays", "key", id, "error", err)
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

// hold reports whether this server can unwrap the key, if need be with the help of another one.
func (s *Service) hold(ctx context.Context, k *api.RootKey) bool {
	if _, err := s.secret(k); err == nil {
		return true
	}
	for _, address := range s.Servers() {
		if address == s.Address {
			continue
		}
		unlock, err := s.ask(ctx, address, k.KeyID)
		if err == nil {
			if _, err = open(k, unlock); err == nil {
				err = s.store.put(k.KeyID, unlock)
			}
		}
		if err == nil {
			return true
		}
		s.Log.Debug("root key was not unlocked", "key", k.KeyID, "server", address, "error", err)
	}
	return false
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

// Lead creates the first root key, and a new one when no server can unwrap the active one. The leader runs it.
func (s *Service) Lead(ctx context.Context) error {
	var locked time.Time
	for ctx.Err() == nil {
		w := s.State.Watch(table...)
		key := s.State.Read().ActiveRootKey()
		usable := key != nil && s.hold(ctx, key)
		switch {
		case usable:
			locked = time.Time{}
		case key != nil && locked.IsZero():
			locked = time.Now()
			s.Log.Warn("no living server can unwrap the active root key", "key", key.KeyID, "new_key_after", s.Patience)
		case key == nil || time.Since(locked) >= s.Patience:
			if err := s.renew(ctx, key); err != nil {
				s.Log.Warn("no root key was made", "error", err)
			}
		}
		wait(ctx, w, usable)
	}
	return nil
}

func (s *Service) renew(ctx context.Context, lost *api.RootKey) error {
	if lost != nil {
		s.Log.Error("no server can unwrap the active root key: a new key replaces it", "lost", lost.KeyID)
	}
	_, err := s.rotate(ctx, 0)
	if errors.Is(err, fault.Conflict) {
		return nil
	}
	return err
}
