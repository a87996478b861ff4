package secrets

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// ofToken is the name under which the secret of a token is sealed: it opens for this token only.
func ofToken(t *api.ACLToken) string { return "token " + t.AccessorID }

// SealToken returns a token as it is stored: its secret is sealed, and found by its hash.
func (b *Box) SealToken(ctx context.Context, t *api.ACLToken) (*api.ACLToken, error) {
	stored := *t
	var err error
	stored.SecretHash = state.SecretHash(t.SecretID)
	stored.SecretID, err = b.seal(ctx, ofToken(t), t.SecretID)
	return &stored, err
}

// OpenToken returns a stored token as its users see it. A secret that cannot be decrypted is an error of class Unavailable.
func (b *Box) OpenToken(t *api.ACLToken) (*api.ACLToken, error) {
	shown := *t
	shown.SecretHash = ""
	if t.SecretHash == "" {
		return &shown, nil
	}
	secret, err := b.open(ofToken(t), t.SecretID)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the secret of token %s cannot be decrypted, although the token works: %w (see nomad operator root keyring list)", t.AccessorID, err)
	}
	shown.SecretID = secret
	return &shown, nil
}
