package keyring

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// spreadWait is for how long a write waits until a majority has a new key, and spreadPause the time between two looks.
const (
	spreadWait  = 10 * time.Second
	spreadPause = 100 * time.Millisecond
)

// DataKey is the active key as it encrypts data. It waits until there is one and a majority of the servers can decrypt it: data
// stays readable when this server is lost.
func (s *Service) DataKey(ctx context.Context) (id string, key []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, spreadWait)
	defer cancel()
	for {
		secret, err := s.Active()
		if err == nil && s.majority(ctx, secret.KeyID) {
			return secret.KeyID, secret.Data, nil
		}
		if err == nil {
			err = fault.New(fault.Unavailable, "less than a majority of the servers can decrypt root key %s yet: try again", secret.KeyID)
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

// majority reports whether more than half of the voters have the wrapping key of a root key, this server among them.
func (s *Service) majority(ctx context.Context, id string) bool {
	s.mu.Lock()
	known := s.spread[id]
	s.mu.Unlock()
	if known {
		return true
	}
	all, err := s.voters()
	if err != nil {
		return false
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

// voters are the addresses of the voters, or of the living servers before there are any.
func (s *Service) voters() ([]string, error) {
	if s.Voters == nil {
		return []string{s.Address}, nil
	}
	v, _, err := s.Voters()
	if err != nil {
		return nil, err
	}
	if v == nil {
		return s.Servers(), nil
	}
	return slices.Collect(maps.Values(v.Servers)), nil
}
