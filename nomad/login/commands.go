package login

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// UpsertMethod creates or replaces an auth method.
type UpsertMethod struct {
	Method *api.ACLAuthMethod `msg:",omitempty"`
}

// DeleteMethod deletes an auth method and its binding rules.
type DeleteMethod struct {
	Name string `msg:",omitempty"`
}

// UpsertRule creates or replaces a binding rule.
type UpsertRule struct {
	Rule *api.ACLBindingRule `msg:",omitempty"`
}

// DeleteRule deletes a binding rule.
type DeleteRule struct {
	ID string `msg:",omitempty"`
}

// Issue stores the token of a login.
type Issue struct {
	Token *api.ACLToken `msg:",omitempty"`
	// Method is the auth method of the login, and MethodIndex its ModifyIndex when the identity was verified.
	Method      string `msg:",omitempty"`
	MethodIndex uint64 `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &UpsertMethod{} })
	r.Register(func() fsm.Command { return &DeleteMethod{} })
	r.Register(func() fsm.Command { return &UpsertRule{} })
	r.Register(func() fsm.Command { return &DeleteRule{} })
	r.Register(func() fsm.Command { return &Issue{} })
}

// Kind implements [fsm.Command].
func (*UpsertMethod) Kind() fsm.Kind { return fsm.KindAuthMethodUpsert }

// Kind implements [fsm.Command].
func (*DeleteMethod) Kind() fsm.Kind { return fsm.KindAuthMethodDelete }

// Kind implements [fsm.Command].
func (*UpsertRule) Kind() fsm.Kind { return fsm.KindBindingRuleUpsert }

// Kind implements [fsm.Command].
func (*DeleteRule) Kind() fsm.Kind { return fsm.KindBindingRuleDelete }

// Kind implements [fsm.Command].
func (*Issue) Kind() fsm.Kind { return fsm.KindLogin }

// Apply stores the auth method, unless another one is the default of its type.
func (c *UpsertMethod) Apply(tx *state.Txn) (any, error) {
	if c.Method == nil {
		return nil, fault.New(fault.Invalid, "missing auth method")
	}
	m := *c.Method
	if m.Default {
		for other := range tx.ACLAuthMethods() {
			if other.Default && other.Type == m.Type && other.Name != m.Name {
				return nil, fault.New(fault.Invalid, "default method for type %s already exists: %s", m.Type, other.Name)
			}
		}
	}
	if old := tx.ACLAuthMethod(m.Name); old != nil {
		m.CreateTime = old.CreateTime
	}
	tx.PutACLAuthMethod(&m)
	return nil, nil
}

// Apply deletes the auth method. Its binding rules go too, so that they do not apply to another method that gets its name.
func (c *DeleteMethod) Apply(tx *state.Txn) (any, error) {
	if !tx.DeleteACLAuthMethod(c.Name) {
		return nil, fault.New(fault.NotFound, "ACL auth-method not found")
	}
	for _, r := range slices.Collect(tx.ACLBindingRulesOf(c.Name)) {
		tx.DeleteACLBindingRule(r.ID)
	}
	return nil, nil
}

// Apply stores the binding rule, unless its auth method does not exist.
func (c *UpsertRule) Apply(tx *state.Txn) (any, error) {
	if c.Rule == nil {
		return nil, fault.New(fault.Invalid, "missing binding rule")
	}
	r := *c.Rule
	if tx.ACLAuthMethod(r.AuthMethod) == nil {
		return nil, fault.New(fault.Invalid, "ACL auth method %s doesn't exist", r.AuthMethod)
	}
	if old := tx.ACLBindingRule(r.ID); old != nil {
		r.CreateTime = old.CreateTime
	}
	tx.PutACLBindingRule(&r)
	return nil, nil
}

// Apply deletes the binding rule.
func (c *DeleteRule) Apply(tx *state.Txn) (any, error) {
	if !tx.DeleteACLBindingRule(c.ID) {
		return nil, fault.New(fault.NotFound, "ACL binding rule not found")
	}
	return nil, nil
}

// Apply stores the token, unless the auth method has changed since the identity was verified.
func (c *Issue) Apply(tx *state.Txn) (any, error) {
	m := tx.ACLAuthMethod(c.Method)
	if c.Token == nil || m == nil || m.ModifyIndex != c.MethodIndex {
		return nil, fault.New(fault.Conflict, "auth method %q has changed during the login: log in again", c.Method)
	}
	t := *c.Token
	if tx.ACLToken(t.AccessorID) != nil || tx.ACLTokenByHash(state.TokenHash(&t)) != nil {
		return nil, fault.New(fault.Conflict, "the accessor or the secret of the token is in use already: log in again")
	}
	tx.PutACLToken(&t)
	return nil, nil
}
