package nodes

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// identityTTL is the lifetime of identities of a node pool that sets none.
	identityTTL = 24 * time.Hour
	// identityBeats is the least lifetime of an identity, in intervals between heartbeats: an identity is renewed in the
	// last third of its lifetime, and the heartbeat that renews it may fail.
	identityBeats = 9
	// keyWait bounds the wait of a registration for the first root key of a cluster.
	keyWait = 2 * time.Second
	// identitiesKept bounds how many verified identities are remembered.
	identitiesKept = 1 << 16
)

// verified is an identity whose signature was verified.
type verified struct {
	token  string
	claims *identity.Claims
	key    string
}

// Verify returns an error unless the credential is a valid identity of the node or, for a node without an identity, its secret.
func (s *Service) Verify(_ context.Context, nodeID, credential string) error {
	tx := s.state.Read()
	n := tx.Node(nodeID)
	if n == nil {
		return missing(nodeID)
	}
	if s.identities != nil && identity.IsToken(credential) {
		if _, err := s.identityOf(tx, nodeID, credential); err != nil {
			return fault.New(fault.Denied, "node %q: %w", nodeID, err)
		}
		return nil
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(n.SecretID), []byte(credential)) != 1:
		return fault.New(fault.Denied, "node %q: wrong secret", nodeID)
	case bound(tx, n):
		return fault.New(fault.Denied, "node %q has a signed identity: %w", nodeID, identity.ErrBound)
	}
	return nil
}

// bound reports whether a node authenticates with its identity only. A node whose identity no key of the cluster verifies
// is not bound, so that a lost keyring locks out no node.
func bound(tx *state.Txn, n *api.Node) bool {
	return n.IdentitySigningKeyID != "" && tx.RootKey(n.IdentitySigningKeyID) != nil
}

// identityOf verifies the identity of a node. With [identity.ErrExpired] it returns the identity too.
func (s *Service) identityOf(tx *state.Txn, nodeID, token string) (*verified, error) {
	s.mu.Lock()
	v := s.verified[nodeID]
	s.mu.Unlock()
	var err error
	switch {
	case s.identities == nil || !identity.IsToken(token):
		return nil, fault.New(fault.Denied, "it has no signed identity")
	case v == nil || v.token != token || tx.RootKey(v.key) == nil:
		if v, err = s.verifyIdentity(nodeID, token); v == nil {
			return nil, err
		}
	case s.identities.Now().Unix() >= v.claims.Expiry:
		err = identity.ErrExpired
	}
	if err != nil {
		err = fault.New(fault.Denied, "its identity ended at %s: %w", v.claims.Expires().Format(time.RFC3339), err)
	}
	return v, err
}

// verifyIdentity verifies an identity that is not remembered, and remembers it.
func (s *Service) verifyIdentity(nodeID, token string) (*verified, error) {
	claims, key, err := s.identities.Verify(token, identity.AudienceNode)
	switch {
	case err != nil && !errors.Is(err, identity.ErrExpired):
		return nil, fault.New(fault.Denied, "its identity is refused: %w", err)
	case claims.NodeID != nodeID:
		return nil, fault.New(fault.Denied, "its identity is that of node %q", claims.NodeID)
	}
	v := &verified{token, claims, key}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verified == nil || len(s.verified) >= identitiesKept {
		s.verified = map[string]*verified{}
	}
	s.verified[nodeID] = v
	return v, err
}

// registering verifies the credentials in a registration: a valid or expired identity, or an introduction. It returns the
// identity, if there is one, or the reason why a bound node is refused.
func (s *Service) registering(tx *state.Txn, n *api.Node, r *api.NodeRegisterRequest) (v *verified, unproved string) {
	v, err := s.identityOf(tx, n.ID, r.Identity)
	switch {
	case v != nil:
		return v, ""
	case s.introduced(n, r.Introduction) == nil:
		return nil, ""
	}
	return nil, err.Error()
}

// unproved is the refusal of a registration of a bound node.
func unproved(n *api.Node, reason string) error {
	return fault.New(fault.Denied, "node %q has a signed identity, and the registration does not prove it (%s): "+
		"create a token with \"nomad node intro create -node-name %s\" and write it to intro_token.jwt in the state directory of the client",
		n.ID, reason, n.Name)
}

// issue signs an identity for a node whose own is due. Without one the node stays registered, and it asks again with
// its next heartbeat.
func (s *Service) issue(ctx context.Context, n *api.Node, by sender, beat time.Duration) string {
	if s.identities == nil || n == nil {
		return ""
	}
	tx := s.state.Read()
	active := tx.ActiveRootKey()
	if active == nil || !by.renew && !due(by.identity, n, active.KeyID, s.identities.Now()) {
		return ""
	}
	claims := claimsOf(n, s.identities.Region)
	claims.TTL = identityTTL
	if p := tx.NodePool(n.NodePool); p != nil && p.NodeIdentityTTL > 0 {
		claims.TTL = p.NodeIdentityTTL
	}
	claims.TTL = max(claims.TTL, identityBeats*beat)
	token, _, err := s.identities.Sign(ctx, claims, identity.EdDSA)
	if err != nil {
		s.log.Warn("sign the identity of a node", "node", n.ID, "error", err)
	}
	return token
}

// awaitKey waits, bounded, for the first root key of a new cluster.
func (s *Service) awaitKey(ctx context.Context) {
	if s.identities == nil || s.state.Read().ActiveRootKey() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keyWait)
	defer cancel()
	_ = state.Until(ctx, s.state, []state.Key{state.TableKey(state.TableRootKeys)}, func(tx *state.Txn) bool { return tx.ActiveRootKey() != nil })
}

// claimsOf returns the claims of a node's identity.
func claimsOf(n *api.Node, region string) *identity.Claims {
	return &identity.Claims{
		Subject: "node:" + region + ":" + n.NodePool + ":" + n.ID + ":default", Audience: []string{identity.AudienceNode},
		NodeID: n.ID, NodePool: n.NodePool, NodeDatacenter: n.Datacenter, NodeClass: n.NodeClass,
	}
}

// due reports whether a node gets a new identity: it has none, a third or less of its lifetime is left, another key is
// active, or the node has changed.
func due(v *verified, n *api.Node, active string, now time.Time) bool {
	if v == nil || v.key != active {
		return true
	}
	c := v.claims
	return 3*(c.Expiry-now.Unix()) <= c.Expiry-c.IssuedAt ||
		c.NodePool != n.NodePool || c.NodeDatacenter != n.Datacenter || c.NodeClass != n.NodeClass
}
