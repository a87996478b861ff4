package regions

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Replicate deletes rows of a table, and stores rows as the authoritative region has them.
type Replicate struct {
	Table    string                `msg:",omitempty"`
	Gone     []string              `msg:",omitempty"`
	Tokens   []*api.ACLToken       `msg:",omitempty"`
	Policies []*api.ACLPolicy      `msg:",omitempty"`
	Roles    []*api.ACLRole        `msg:",omitempty"`
	Methods  []*api.ACLAuthMethod  `msg:",omitempty"`
	Rules    []*api.ACLBindingRule `msg:",omitempty"`
}

// Commands registers this package's command.
func Commands(r *fsm.Registry) { r.Register(func() fsm.Command { return &Replicate{} }) }

// Kind implements [fsm.Command].
func (*Replicate) Kind() fsm.Kind { return fsm.KindACLReplicate }

// Apply deletes and stores the rows.
func (c *Replicate) Apply(tx *state.Txn) (any, error) {
	remove := map[string]func(string) bool{
		state.TableACLTokens: tx.DeleteACLToken, state.TableACLPolicies: tx.DeleteACLPolicy, state.TableACLRoles: tx.DeleteACLRole,
		state.TableACLAuthMethods: tx.DeleteACLAuthMethod, state.TableACLBindingRules: tx.DeleteACLBindingRule,
	}[c.Table]
	for _, key := range c.Gone {
		if remove != nil {
			remove(key)
		}
	}
	for _, t := range c.Tokens {
		tx.PutACLToken(t)
	}
	for _, p := range c.Policies {
		tx.PutACLPolicy(p)
	}
	for _, r := range c.Roles {
		tx.PutACLRole(r)
	}
	for _, m := range c.Methods {
		tx.PutACLAuthMethod(m)
	}
	for _, r := range c.Rules {
		tx.PutACLBindingRule(r)
	}
	return nil, nil
}
