package keyring

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// spreadWait is for how long a write waits until a majority has a new key, and spreadPause the time between two looks.
const (
	spreadWait  = 10 * time.Second
	spreadPause = 100 * time.Millisecond
)

// DataKey is the active key as it encrypts data. It waits until there is one and a majority of the servers can unwrap it: what is
// encrypted stays readable when this server is lost.
func (s *Service) DataKey(ctx context.Context) (id string, key []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, spreadWait)
	defer cancel()
	for {
		secret, err := s.Active()
		if err == nil && s.majority(ctx, secret.KeyID) {
			return secret.KeyID, secret.Data, nil
		}
		if err == nil {
			err = fault.New(fault.Unavailable, "less than a majority of the servers has root key %s yet: try again", secret.KeyID)
		}
		select {
		case <-time.After(spreadPause):
		case <-ctx.Done():
			return "", nil, err
		}
	}
}

// DataKeyOf is a key as it decrypts data.
func (s *Service) DataKeyOf(id string) ([]byte, error) {
	k := s.State.Read().RootKey(id)
	if k == nil {
		return nil, fault.New(fault.Internal, "root key %s was removed: what it encrypted cannot be read", id)
	}
	secret, err := s.secret(k)
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// majority reports whether more than half of the voters can unwrap a key, this server among them.
func (s *Service) majority(ctx context.Context, id string) bool {
	s.mu.Lock()
	known := s.spread[id]
	s.mu.Unlock()
	if known {
		return true
	}
	all := []string{s.Address}
	if s.Voters != nil {
		v, _, err := s.Voters()
		if err != nil {
			return false
		}
		all = s.Servers()
		if v != nil {
			all = nil
			for _, address := range v.Servers {
				all = append(all, address)
			}
		}
	}
	have := 0
	if len(all) == 0 || slices.Contains(all, s.Address) {
		have++
	}
	for _, address := range all {
		if address != s.Address && 2*have <= len(all) {
			if _, err := s.ask(ctx, address, id); err == nil {
				have++
			}
		}
	}
	if 2*have <= len(all) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spread[id] = true
	return true
}
