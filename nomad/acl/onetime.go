package acl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	oneTimeTTL  = 10 * time.Minute
	expireEvery = 5 * time.Minute
	// expireBatch bounds the tokens of one entry of the log.
	expireBatch = 1024
)

// OneTimeToken makes a one-time token for the caller's token.
func (s *Service) OneTimeToken(ctx context.Context, _ *api.OneTimeTokenRequest) (*api.OneTimeTokenResponse, error) {
	t := access.Of(ctx).Token
	if s.State.Read().ACLToken(t.AccessorID) == nil {
		return nil, access.ErrDenied
	}
	secret := uuid.NewString()
	res, err := s.Raft.Propose(ctx, &AddOneTimeToken{Token: &api.OneTimeToken{
		OneTimeSecretID: state.SecretHash(secret), AccessorID: t.AccessorID, ExpiresAt: s.Now().Add(oneTimeTTL).UTC(),
	}})
	if err != nil {
		return nil, err
	}
	out := &api.OneTimeTokenResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if stored, ok := res.Value.(*api.OneTimeToken); ok {
		once := *stored
		once.OneTimeSecretID, out.OneTimeToken = secret, &once
	}
	return out, nil
}

// Exchange returns the token that a one-time token stands for, once.
func (s *Service) Exchange(ctx context.Context, r *api.OneTimeTokenExchangeRequest) (*api.ACLTokenWriteResponse, error) {
	hash := state.SecretHash(r.OneTimeSecretID)
	if exchangeable(s.State.Read(), hash, s.Now()) == nil {
		return nil, access.ErrDenied // everyone may ask; no entry of the log is spent on it
	}
	return s.proposeToken(ctx, &ExchangeOneTimeToken{Secret: hash})
}

// Run deletes expired tokens from time to time while this server leads.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.Collect(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("expired tokens were not deleted", "error", err)
		}
	}
}

// Collect deletes the tokens that expired some time ago, and expired one-time tokens.
func (s *Service) Collect(ctx context.Context) error {
	now := s.Now()
	before := now.Add(-s.Limits.GCThreshold)
	var tokens, once []string
	tx := s.State.Read()
	for t := range tx.ACLTokens() {
		if t.Expired(before) && !(t.Global && s.Copies) {
			tokens = append(tokens, t.AccessorID)
		}
	}
	for t := range tx.OneTimeTokens() {
		if !now.Before(t.ExpiresAt) {
			once = append(once, t.OneTimeSecretID)
		}
	}
	for batch := range slices.Chunk(tokens, expireBatch) {
		if _, err := s.propose(ctx, &Expire{AccessorIDs: batch, Before: before}); err != nil {
			return fmt.Errorf("delete expired tokens: %w", err)
		}
	}
	for batch := range slices.Chunk(once, expireBatch) {
		if _, err := s.propose(ctx, &Expire{OneTime: batch}); err != nil {
			return fmt.Errorf("delete expired one-time tokens: %w", err)
		}
	}
	return nil
}
