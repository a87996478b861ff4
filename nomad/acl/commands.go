package acl

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Bootstrap stores the first management token.
type Bootstrap struct {
	Token *api.ACLToken `msg:",omitempty"`
	// ResetIndex is the index of the bootstrap that an operator permits to repeat; 0 permits the first one only.
	ResetIndex uint64 `msg:",omitempty"`
}

// UpsertToken creates a token, or changes the name, the type, the policies and the roles of one.
type UpsertToken struct {
	Token  *api.ACLToken `msg:",omitempty"`
	Create bool          `msg:",omitempty"`
}

// DeleteTokens deletes tokens.
type DeleteTokens struct {
	AccessorIDs []string `msg:",omitempty"`
}

// AddOneTimeToken stores a one-time token.
type AddOneTimeToken struct {
	Token *api.OneTimeToken `msg:",omitempty"`
}

// ExchangeOneTimeToken deletes a one-time token and returns the token that it stands for.
type ExchangeOneTimeToken struct {
	// Secret is the hash of the secret.
	Secret string `msg:",omitempty" secret:"true"`
}

// Expire deletes those of the tokens that expired before a time, and those of the one-time tokens that are expired.
type Expire struct {
	AccessorIDs []string  `msg:",omitempty"`
	OneTime     []string  `msg:",omitempty" secret:"true"`
	Before      time.Time `msg:",omitempty"`
}

// UpsertPolicies creates or replaces policies.
type UpsertPolicies struct {
	Policies []*api.ACLPolicy `msg:",omitempty"`
}

// DeletePolicy deletes a policy.
type DeletePolicy struct {
	Name string `msg:",omitempty"`
}

// UpsertRole creates or replaces a role.
type UpsertRole struct {
	Role   *api.ACLRole `msg:",omitempty"`
	Create bool         `msg:",omitempty"`
}

// DeleteRole deletes a role.
type DeleteRole struct {
	ID string `msg:",omitempty"`
}

// Commands registers this package's commands.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Bootstrap{} })
	r.Register(func() fsm.Command { return &UpsertToken{} })
	r.Register(func() fsm.Command { return &DeleteTokens{} })
	r.Register(func() fsm.Command { return &AddOneTimeToken{} })
	r.Register(func() fsm.Command { return &ExchangeOneTimeToken{} })
	r.Register(func() fsm.Command { return &Expire{} })
	r.Register(func() fsm.Command { return &UpsertPolicies{} })
	r.Register(func() fsm.Command { return &DeletePolicy{} })
	r.Register(func() fsm.Command { return &UpsertRole{} })
	r.Register(func() fsm.Command { return &DeleteRole{} })
}

// Kind implements [fsm.Command].
func (*Bootstrap) Kind() fsm.Kind { return fsm.KindACLBootstrap }

// Kind implements [fsm.Command].
func (*UpsertToken) Kind() fsm.Kind { return fsm.KindACLTokenUpsert }

// Kind implements [fsm.Command].
func (*DeleteTokens) Kind() fsm.Kind { return fsm.KindACLTokenDelete }

// Kind implements [fsm.Command].
func (*AddOneTimeToken) Kind() fsm.Kind { return fsm.KindOneTimeTokenAdd }

// Kind implements [fsm.Command].
func (*ExchangeOneTimeToken) Kind() fsm.Kind { return fsm.KindOneTimeTokenExchange }

// Kind implements [fsm.Command].
func (*Expire) Kind() fsm.Kind { return fsm.KindACLExpire }

// Kind implements [fsm.Command].
func (*UpsertPolicies) Kind() fsm.Kind { return fsm.KindACLPolicyUpsert }

// Kind implements [fsm.Command].
func (*DeletePolicy) Kind() fsm.Kind { return fsm.KindACLPolicyDelete }

// Kind implements [fsm.Command].
func (*UpsertRole) Kind() fsm.Kind { return fsm.KindACLRoleUpsert }

// Kind implements [fsm.Command].
func (*DeleteRole) Kind() fsm.Kind { return fsm.KindACLRoleDelete }

// Apply stores the token unless there was a bootstrap that the command does not name.
func (c *Bootstrap) Apply(tx *state.Txn) (any, error) {
	if err := bootstrapped(tx, c.ResetIndex); err != nil {
		return nil, err
	}
	if err := add(tx, c.Token); err != nil {
		return nil, err
	}
	tx.PutACLBootstrap(&api.ACLBootstrap{ResetIndex: tx.Index()})
	return c.Token, nil
}

// bootstrapped returns an error if there was a bootstrap, unless its index is that of the reset.
func bootstrapped(tx *state.Txn, reset uint64) error {
	if b := tx.ACLBootstrap(); b != nil && b.ResetIndex != reset {
		return fault.New(fault.Invalid, "ACL bootstrap already done (reset index: %d)", b.ResetIndex)
	}
	return nil
}

// add stores a token that must be new.
func add(tx *state.Txn, t *api.ACLToken) error {
	switch {
	case t == nil || t.AccessorID == "" || t.SecretID == "":
		return fault.New(fault.Invalid, "missing token, accessor or secret")
	case tx.ACLToken(t.AccessorID) != nil:
		return fault.New(fault.Invalid, "the accessor %s is that of another token", t.AccessorID)
	case tx.ACLTokenByHash(state.TokenHash(t)) != nil:
		return fault.New(fault.Invalid, "the secret is that of another token")
	}
	tx.PutACLToken(t)
	return nil
}

// Apply stores the token. What is permanent about a token stays as it is stored.
func (c *UpsertToken) Apply(tx *state.Txn) (any, error) {
	if c.Create {
		return c.Token, add(tx, c.Token)
	}
	if c.Token == nil {
		return nil, fault.New(fault.Invalid, "missing token")
	}
	old := tx.ACLToken(c.Token.AccessorID)
	if old == nil {
		return nil, errNoToken
	}
	t := *old
	t.Name, t.Type, t.Policies, t.Roles, t.Hash = c.Token.Name, c.Token.Type, c.Token.Policies, c.Token.Roles, c.Token.Hash
	tx.PutACLToken(&t)
	return &t, nil
}

// Apply deletes the tokens if all of them exist.
func (c *DeleteTokens) Apply(tx *state.Txn) (any, error) {
	for _, id := range c.AccessorIDs {
		if !tx.DeleteACLToken(id) {
			return nil, errNoToken
		}
	}
	return nil, nil
}

// Apply stores the one-time token if its token exists.
func (c *AddOneTimeToken) Apply(tx *state.Txn) (any, error) {
	if c.Token == nil || c.Token.OneTimeSecretID == "" {
		return nil, fault.New(fault.Invalid, "missing one-time token")
	}
	if tx.ACLToken(c.Token.AccessorID) == nil {
		return nil, errNoToken
	}
	tx.PutOneTimeToken(c.Token)
	return c.Token, nil
}

// Apply returns the token of a one-time token that is not expired, to one caller only.
func (c *ExchangeOneTimeToken) Apply(tx *state.Txn) (any, error) {
	t := exchangeable(tx, c.Secret, tx.Now())
	if t == nil {
		return nil, access.ErrDenied
	}
	tx.DeleteOneTimeToken(c.Secret)
	return t, nil
}

// exchangeable returns the token of a one-time token, or nil when one of them is missing or expired.
func exchangeable(tx *state.Txn, hash string, now time.Time) *api.ACLToken {
	once := tx.OneTimeToken(hash)
	if once == nil || !now.Before(once.ExpiresAt) {
		return nil
	}
	if t := tx.ACLToken(once.AccessorID); t != nil && !t.Expired(now) {
		return t
	}
	return nil
}

// Apply deletes what is expired.
func (c *Expire) Apply(tx *state.Txn) (any, error) {
	for _, id := range c.AccessorIDs {
		if t := tx.ACLToken(id); t != nil && t.Expired(c.Before) && t.Expired(tx.Now()) {
			tx.DeleteACLToken(id)
		}
	}
	for _, secret := range c.OneTime {
		if t := tx.OneTimeToken(secret); t != nil && !tx.Now().Before(t.ExpiresAt) {
			tx.DeleteOneTimeToken(secret)
		}
	}
	return nil, nil
}

// Apply stores the policies.
func (c *UpsertPolicies) Apply(tx *state.Txn) (any, error) {
	for _, p := range c.Policies {
		if p == nil || p.Name == "" {
			return nil, fault.New(fault.Invalid, "missing policy")
		}
		tx.PutACLPolicy(p)
	}
	return nil, nil
}

// Apply deletes the policy.
func (c *DeletePolicy) Apply(tx *state.Txn) (any, error) {
	if !tx.DeleteACLPolicy(c.Name) {
		return nil, errNoPolicy
	}
	return nil, nil
}

// Apply stores the role. Two roles cannot have one name.
func (c *UpsertRole) Apply(tx *state.Txn) (any, error) {
	if c.Role == nil || c.Role.ID == "" {
		return nil, fault.New(fault.Invalid, "missing role")
	}
	if !c.Create && tx.ACLRole(c.Role.ID) == nil {
		return nil, errNoRole
	}
	if r := tx.ACLRoleByName(c.Role.Name); r != nil && r.ID != c.Role.ID {
		return nil, fault.New(fault.Invalid, "role with name %s already exists", c.Role.Name)
	}
	tx.PutACLRole(c.Role)
	return c.Role, nil
}

// Apply deletes the role.
func (c *DeleteRole) Apply(tx *state.Txn) (any, error) {
	if !tx.DeleteACLRole(c.ID) {
		return nil, errNoRole
	}
	return nil, nil
}
