package quotas

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Upsert creates or replaces a quota.
type Upsert struct {
	Quota *api.QuotaSpec `msg:",omitempty"`
}

// Delete deletes a quota that no namespace has.
type Delete struct {
	Name string `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Upsert{} })
	r.Register(func() fsm.Command { return &Delete{} })
}

// Kind implements [fsm.Command].
func (*Upsert) Kind() fsm.Kind { return fsm.KindQuotaUpsert }

// Kind implements [fsm.Command].
func (*Delete) Kind() fsm.Kind { return fsm.KindQuotaDelete }

// Apply stores the quota.
func (c *Upsert) Apply(tx *state.Txn) (any, error) {
	if c.Quota == nil {
		return nil, fault.New(fault.Invalid, "missing quota specification")
	}
	q := *c.Quota
	tx.PutQuota(&q)
	return nil, nil
}

// Apply deletes the quota unless a namespace has it.
func (c *Delete) Apply(tx *state.Txn) (any, error) {
	if tx.Quota(c.Name) == nil {
		return nil, fault.New(fault.NotFound, "quota %q not found", c.Name)
	}
	var users []string
	for n := range tx.Namespaces() {
		if n.Quota == c.Name {
			users = append(users, n.Name)
		}
	}
	if len(users) > 0 {
		return nil, fault.New(fault.Conflict, "quota %q is used by the namespaces %s: remove it from them first", c.Name, strings.Join(users, ", "))
	}
	tx.DeleteQuota(c.Name)
	return nil, nil
}
