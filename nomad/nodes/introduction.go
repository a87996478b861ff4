package nodes

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/identity"
)

// Enforcement decides what happens to a new node without a valid introduction token.
type Enforcement string

// Levels of enforcement.
const (
	// EnforceNone accepts it.
	EnforceNone Enforcement = "none"
	// EnforceWarn accepts it, logs a warning, and counts it.
	EnforceWarn Enforcement = "warn"
	// EnforceStrict refuses it.
	EnforceStrict Enforcement = "strict"
)

// Introduction configures the introduction of new nodes; zero fields mean those of [DefaultIntroduction].
type Introduction struct {
	Enforcement Enforcement
	// DefaultTTL is the lifetime of a token whose request names none, MaxTTL the longest one that is possible.
	DefaultTTL, MaxTTL time.Duration
}

// DefaultIntroduction returns the usual configuration.
func DefaultIntroduction() Introduction {
	return Introduction{Enforcement: EnforceWarn, DefaultTTL: 5 * time.Minute, MaxTTL: 30 * time.Minute}
}

func (i Introduction) complete() Introduction {
	d := DefaultIntroduction()
	i.Enforcement = cmp.Or(i.Enforcement, d.Enforcement)
	i.MaxTTL = cmp.Or(i.MaxTTL, d.MaxTTL)
	i.DefaultTTL = cmp.Or(i.DefaultTTL, min(d.DefaultTTL, i.MaxTTL))
	return i
}

// Violations returns how many new nodes had no valid introduction token since this server started.
func (s *Service) Violations() uint64 { return s.violations.Load() }

// admit decides whether a node that the state does not have may register.
func (s *Service) admit(n *api.Node, token string) error {
	if s.identities == nil || s.introduction.Enforcement == EnforceNone {
		return nil
	}
	err := s.introduced(n, token)
	if err == nil {
		return nil
	}
	s.violations.Add(1)
	s.metrics.Count("nomad.client.introduction_violation_num", 1)
	if s.introduction.Enforcement == EnforceStrict {
		return fault.New(fault.Denied, "node %q is new, and the servers accept only introduced nodes (%w): create a token with "+
			"\"nomad node intro create\" and start the client with -client-intro-token", n.Name, err)
	}
	s.log.Warn("new node without a valid introduction", "node", n.ID, "name", n.Name, "pool", n.NodePool, "address", n.RPCAddr, "reason", err)
	return nil
}

// introduced returns an error unless the token introduces a node of this name and pool.
func (s *Service) introduced(n *api.Node, token string) error {
	if s.identities == nil || token == "" {
		return fault.New(fault.Denied, "it has no introduction token")
	}
	c, _, err := s.identities.Verify(token, identity.AudienceIntroduction)
	switch {
	case err != nil:
		return fault.New(fault.Denied, "introduction: %w", err)
	case c.NodeName != "" && c.NodeName != n.Name:
		return fault.New(fault.Denied, "the introduction token is for a node named %q", c.NodeName)
	case c.NodePool != "" && c.NodePool != n.NodePool:
		return fault.New(fault.Denied, "the introduction token is for node pool %q, the node is in %q", c.NodePool, n.NodePool)
	}
	return nil
}

// Introduce creates an introduction token. It may be used for several nodes until it expires.
func (s *Service) Introduce(ctx context.Context, r *api.NodeIntroductionRequest) (*api.NodeIntroductionResponse, error) {
	if s.identities == nil {
		return nil, fault.New(fault.Unimplemented, "this server signs no tokens")
	}
	most := s.introduction.MaxTTL
	switch {
	case r.TTL < 0 || r.TTL > most:
		return nil, fault.New(fault.Invalid, "the TTL %s is not between 0 and %s, the max_identity_ttl of the servers", r.TTL, most)
	case r.TTL > 0 && r.TTL < time.Second:
		return nil, fault.New(fault.Invalid, "the TTL %s is less than a second", r.TTL)
	case len(r.NodeName) > nameMax || strings.ContainsFunc(r.NodeName, func(c rune) bool { return !unicode.IsPrint(c) }):
		return nil, fault.New(fault.Invalid, "node name %q: at most %d printable characters are possible", cut(r.NodeName, 64), nameMax)
	case r.NodePool == api.NodePoolAll || r.NodePool != "" && !poolNamed(r.NodePool):
		return nil, fault.New(fault.Invalid, "node pool %q: no node can register in a pool of this name", cut(r.NodePool, 64))
	}
	token, _, err := s.identities.Sign(ctx, &identity.Claims{
		Subject:  "node-introduction:" + s.identities.Region + ":" + r.NodePool + ":" + r.NodeName + ":default",
		Audience: []string{identity.AudienceIntroduction}, NodeName: r.NodeName, NodePool: r.NodePool,
		TTL: cmp.Or(r.TTL, s.introduction.DefaultTTL),
	}, identity.EdDSA)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "sign the introduction token: %w", err)
	}
	return &api.NodeIntroductionResponse{JWT: token}, nil
}
