package acl

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

var (
	errNoToken  = fault.New(fault.NotFound, "ACL token not found")
	errNoPolicy = fault.New(fault.NotFound, "ACL policy not found")
	errNoRole   = fault.New(fault.NotFound, "ACL role not found")
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Secrets encrypts the secrets of tokens for the log and the state.
	Secrets *secrets.Box
	// Enabled switches access control on. Without it every method is refused.
	Enabled bool
	// Dir is where an operator permits another bootstrap; empty permits none.
	Dir string
	// Limits bound how long tokens may live.
	Limits Limits
	// Copies is set where global tokens are copies: the authoritative region deletes them.
	Copies bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Limits bound how long tokens live; zero fields take the defaults.
type Limits struct {
	// MinTTL and MaxTTL bound the lifetime of tokens that expire: 1 minute and 24 hours.
	MinTTL, MaxTTL time.Duration
	// GCThreshold is for how long expired tokens are kept: 1 hour.
	GCThreshold time.Duration
}

// Service implements the methods on tokens, policies and roles.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service {
	c.Limits.MinTTL = cmp.Or(c.Limits.MinTTL, time.Minute)
	c.Limits.MaxTTL = cmp.Or(c.Limits.MaxTTL, 24*time.Hour)
	c.Limits.GCThreshold = cmp.Or(c.Limits.GCThreshold, time.Hour)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return &Service{c}
}

// Handlers binds the methods of the service.
func (s *Service) Handlers() []wire.Handler {
	all := []wire.Handler{
		wire.ACLBootstrap.Handle(s.Bootstrap),
		wire.ACLWhoAmI.Handle(s.WhoAmI),
		wire.ACLTokenList.Handle(s.Tokens),
		wire.ACLTokenGet.Handle(s.Token),
		wire.ACLTokenUpsert.Handle(s.UpsertToken),
		wire.ACLTokenDelete.Handle(s.DeleteTokens),
		wire.ACLOneTimeToken.Handle(s.OneTimeToken),
		wire.ACLOneTimeExchange.Handle(s.Exchange),
		wire.ACLPolicyList.Handle(s.Policies),
		wire.ACLPolicyGet.Handle(s.Policy),
		wire.ACLPolicyUpsert.Handle(s.UpsertPolicies),
		wire.ACLPolicyDelete.Handle(s.DeletePolicy),
		wire.ACLRoleList.Handle(s.Roles),
		wire.ACLRoleGet.Handle(s.Role),
		wire.ACLRoleUpsert.Handle(s.UpsertRole),
		wire.ACLRoleDelete.Handle(s.DeleteRole),
	}
	for i := range all {
		all[i].Serve = s.enabled(all[i].Serve)
	}
	return all
}

// enabled refuses a method without access control.
func (s *Service) enabled(next func(context.Context, any) (any, error)) func(context.Context, any) (any, error) {
	return func(ctx context.Context, req any) (any, error) {
		if !s.Enabled {
			return nil, access.ErrDisabled
		}
		return next(ctx, req)
	}
}

// own are the roles and the policies of a token, the policies of its roles too.
type own struct{ policies, roles map[string]bool }

func ownOf(tx *state.Txn, t *api.ACLToken) own {
	o := own{map[string]bool{}, map[string]bool{}}
	for _, name := range t.Policies {
		o.policies[name] = true
	}
	for _, link := range t.Roles {
		r := tx.ACLRole(link.ID)
		if r == nil {
			continue
		}
		o.roles[r.ID] = true
		for _, p := range r.Policies {
			o.policies[p.Name] = true
		}
	}
	return o
}

// read blocks on one object. The index of an object that does not exist is that of its table.
func read[T any](ctx context.Context, s *Service, q *api.QueryOptions, m *api.QueryMeta, key state.Key, get func(*state.Txn) *T) (object *T, err error) {
	err = rpc.Block(ctx, s.State, q, m, []state.Key{key}, func(tx *state.Txn) error {
		object = get(tx)
		return nil
	})
	if object == nil {
		m.Index = max(m.Index, s.State.Read().TableIndex(key.Table))
	}
	return object, err
}

func (s *Service) propose(ctx context.Context, cmd fsm.Command) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}

var nameForm = lazy.Regexp(`^[a-zA-Z0-9-]{1,128}$`)

// descriptionMax bounds descriptions, and the names of tokens, in bytes.
const descriptionMax = 256

func checkName(name string) error {
	if !nameForm().MatchString(name) {
		return fmt.Errorf("invalid name %q: use 1 to 128 letters, digits and dashes", name)
	}
	return nil
}

func checkDescription(text string) error {
	if len(text) > descriptionMax {
		return fmt.Errorf("description longer than %d", descriptionMax)
	}
	return ids.CheckText("description", text)
}

// invalid lists what is wrong with an object; nil when nothing is.
func invalid(object string, errs ...error) error {
	var list strings.Builder
	count := 0
	for _, err := range errs {
		if err != nil {
			count++
			fmt.Fprintf(&list, "\n\t* %s", err)
		}
	}
	switch count {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Invalid, "%s invalid: 1 error occurred:%s\n\n", object, &list)
	}
	return fault.New(fault.Invalid, "%s invalid: %d errors occurred:%s\n\n", object, count, &list)
}

// hash is a digest of the texts. The length of each is part of it.
func hash(texts ...string) []byte {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return h.Sum(nil)
}
