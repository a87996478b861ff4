package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Tokens lists tokens by accessor.
func (s *Service) Tokens(ctx context.Context, r *api.ACLTokenListRequest) (*api.ACLTokenListResponse, error) {
	out := &api.ACLTokenListResponse{}
	var err error
	out.Tokens, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableACLTokens)}, func(tx *state.Txn) page.List[*api.ACLToken, *api.ACLToken] {
		return page.List[*api.ACLToken, *api.ACLToken]{
			Walk: tx.ACLTokenSpan, Token: func(t *api.ACLToken) string { return t.AccessorID },
			Keep: func(t *api.ACLToken) bool { return t.Global || !r.GlobalOnly },
			View: func(t *api.ACLToken) any { return t.Stub() },
			Row:  func(t *api.ACLToken) *api.ACLToken { return mask.Redacted(named(tx, t)) },
		}
	})
	return out, err
}

// named returns the token with the present names of its roles, without those that were deleted.
func named(tx *state.Txn, t *api.ACLToken) *api.ACLToken {
	if len(t.Roles) == 0 {
		return t
	}
	c := *t
	c.Roles = nil
	for _, link := range t.Roles {
		if r := tx.ACLRole(link.ID); r != nil {
			c.Roles = append(c.Roles, &api.ACLTokenRoleLink{ID: r.ID, Name: r.Name})
		}
	}
	return &c
}

// WhoAmI reads the token of the caller. That of a workload is made from its identity and has no CreateIndex.
func (s *Service) WhoAmI(ctx context.Context, q *api.QueryOptions) (*api.ACLTokenResponse, error) {
	if c := access.Of(ctx); c.Identity != nil {
		return &api.ACLTokenResponse{Token: c.Token, QueryMeta: api.QueryMeta{Index: max(s.State.Touched(access.Tables...), 1)}}, nil
	}
	return s.token(ctx, q, access.Of(ctx).Token.AccessorID)
}

// Token reads one token. Management tokens may read all, others themselves.
func (s *Service) Token(ctx context.Context, r *api.ACLTokenRequest) (*api.ACLTokenResponse, error) {
	if c := access.Of(ctx); !c.Rights.IsManagement() && c.Token.AccessorID != r.AccessorID {
		return nil, access.ErrDenied
	}
	return s.token(ctx, &r.QueryOptions, r.AccessorID)
}

func (s *Service) token(ctx context.Context, q *api.QueryOptions, accessor string) (*api.ACLTokenResponse, error) {
	out := &api.ACLTokenResponse{}
	var err error
	out.Token, err = read(ctx, s, q, &out.QueryMeta, state.ACLTokenKey(accessor), func(tx *state.Txn) *api.ACLToken {
		if t := tx.ACLToken(accessor); t != nil {
			return named(tx, t)
		}
		return nil
	})
	if err == nil && out.Token != nil {
		out.Token, err = s.Secrets.OpenToken(out.Token)
	}
	return out, err
}

// UpsertToken creates a token, or changes the one with the accessor of the request. A client token with an accessor and a
// secret that no token has is created with both, so that tokens can be moved between clusters.
func (s *Service) UpsertToken(ctx context.Context, r *api.ACLTokenUpsertRequest) (*api.ACLTokenWriteResponse, error) {
	if r.Token == nil {
		return nil, fault.New(fault.Invalid, "missing token")
	}
	tx := s.State.Read()
	t := *r.Token
	old := tx.ACLToken(t.AccessorID)
	cmd := &UpsertToken{Token: &t, Create: old == nil}
	var errs []error
	switch {
	case old != nil:
		errs = append(errs, keep(&t, old))
	case t.AccessorID == "":
		t.AccessorID, t.SecretID = uuid.NewString(), uuid.NewString()
	case t.SecretID == "":
		return nil, errNoToken
	default:
		errs = append(errs, uploaded(&t))
	}
	if cmd.Create {
		t.CreateTime = s.Now().UTC()
		errs = append(errs, s.expire(&t))
	}
	errs = append(errs, checkToken(&t), link(tx, &t))
	if err := invalid("token 0", errs...); err != nil {
		return nil, err
	}
	t.Hash = hashToken(&t)
	if cmd.Create {
		var err error
		if cmd.Token, err = s.Secrets.SealToken(ctx, &t); err != nil {
			return nil, err
		}
	}
	return s.proposeToken(ctx, cmd)
}

// uploaded checks a token whose accessor and secret are given.
func uploaded(t *api.ACLToken) error {
	const form = len("00000000-0000-0000-0000-000000000000")
	for _, id := range []struct{ name, text string }{{"accessor", t.AccessorID}, {"secret", t.SecretID}} {
		if len(id.text) != form || uuid.Validate(id.text) != nil {
			return fmt.Errorf("the %s is no UUID: give one, or create the token without an accessor and a secret", id.name)
		}
	}
	if t.Type == api.ACLManagementToken {
		return errors.New("cannot upload management tokens")
	}
	return nil
}

// proposeToken proposes a command that returns a token.
func (s *Service) proposeToken(ctx context.Context, cmd fsm.Command) (*api.ACLTokenWriteResponse, error) {
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	out := &api.ACLTokenWriteResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if t, ok := res.Value.(*api.ACLToken); ok && t != nil {
		out.Token, err = s.Secrets.OpenToken(t)
	}
	return out, err
}

// keep completes an update with what is permanent about the token, or returns why the update cannot be made.
func keep(t, old *api.ACLToken) error {
	var errs []error
	if t.Global != old.Global {
		errs = append(errs, fmt.Errorf("cannot toggle global mode of %s", old.AccessorID))
	}
	if t.SecretID != "" && state.SecretHash(t.SecretID) != state.TokenHash(old) {
		errs = append(errs, errors.New("cannot update the secret"))
	}
	if t.ExpirationTTL != 0 && t.ExpirationTTL != old.ExpirationTTL {
		errs = append(errs, errors.New("cannot update expiration TTL"))
	}
	if t.ExpirationTime != nil && (old.ExpirationTime == nil || !t.ExpirationTime.Equal(*old.ExpirationTime)) {
		errs = append(errs, errors.New("cannot update expiration time"))
	}
	t.SecretID, t.SecretHash, t.CreateTime, t.ExpirationTTL, t.ExpirationTime = old.SecretID, old.SecretHash, old.CreateTime, old.ExpirationTTL, old.ExpirationTime
	t.Type = cmp.Or(t.Type, old.Type)
	return errors.Join(errs...)
}

// expire computes and checks when a new token expires.
func (s *Service) expire(t *api.ACLToken) error {
	if t.ExpirationTTL != 0 {
		if t.ExpirationTime != nil {
			return errors.New("set either the expiration time or the expiration TTL, not both")
		}
		end := t.CreateTime.Add(t.ExpirationTTL)
		t.ExpirationTime = &end
	}
	if t.ExpirationTime == nil {
		return nil
	}
	switch ttl := t.ExpirationTime.Sub(t.CreateTime); {
	case ttl < s.Limits.MinTTL:
		return fmt.Errorf("expiration time cannot be less than %s in the future", s.Limits.MinTTL)
	case ttl > s.Limits.MaxTTL:
		return fmt.Errorf("expiration time cannot be more than %s in the future", s.Limits.MaxTTL)
	}
	return nil
}

func checkToken(t *api.ACLToken) error {
	if len(t.Name) > descriptionMax {
		return errors.New("token name too long")
	}
	switch t.Type {
	case api.ACLClientToken:
		if len(t.Policies) == 0 && len(t.Roles) == 0 {
			return errors.New("client token missing policies or roles")
		}
	case api.ACLManagementToken:
		if len(t.Policies) > 0 || len(t.Roles) > 0 {
			return errors.New("management token cannot be associated with policies or roles")
		}
	default:
		return errors.New("token type must be client or management")
	}
	return ids.CheckText("token name", t.Name)
}

// link replaces the roles of a token, which requests name by id or by name, with links that have both. It drops the
// policies and roles that are named twice.
func link(tx *state.Txn, t *api.ACLToken) error {
	t.Policies = distinct(t.Policies)
	var links []*api.ACLTokenRoleLink
	for _, l := range t.Roles {
		r := tx.ACLRole(l.ID)
		if l.ID == "" {
			r = tx.ACLRoleByName(l.Name)
		}
		if r == nil {
			return fmt.Errorf("cannot find role %s", cmp.Or(l.ID, l.Name))
		}
		if !slices.ContainsFunc(links, func(other *api.ACLTokenRoleLink) bool { return other.ID == r.ID }) {
			links = append(links, &api.ACLTokenRoleLink{ID: r.ID, Name: r.Name})
		}
	}
	t.Roles = links
	return nil
}

// distinct returns the texts in their order, each once.
func distinct(texts []string) []string {
	var out []string
	for _, t := range texts {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func hashToken(t *api.ACLToken) []byte {
	texts := append([]string{t.Name, t.Type, strconv.FormatBool(t.Global)}, t.Policies...)
	for _, r := range t.Roles {
		texts = append(texts, "role", r.ID)
	}
	return hash(texts...)
}

// DeleteTokens deletes tokens.
func (s *Service) DeleteTokens(ctx context.Context, r *api.ACLTokenDeleteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &DeleteTokens{AccessorIDs: distinct(r.AccessorIDs)})
}
