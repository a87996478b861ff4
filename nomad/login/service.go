package login

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/keyed"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of the lifetime of tokens when the configuration has none.
const (
	defaultMinTTL = time.Minute
	defaultMaxTTL = 24 * time.Hour
)

// Limits of logins that are under way: of one auth method, of all, and how long one waits for its turn.
const (
	methodLogins = 16
	allLogins    = 64
	turnWait     = 2 * time.Second
)

// Config is what the service needs.
type Config struct {
	Log       hclog.Logger
	State     *state.Store
	Raft      fsm.Proposer
	Providers *provider.Providers
	// Secrets encrypts the secrets of the tokens that logins create.
	Secrets *secrets.Box
	// Enabled switches access control on. Without it every method is refused.
	Enabled bool
	// MinTTL and MaxTTL limit the lifetime of tokens; 0 means a minute and a day.
	MinTTL, MaxTTL time.Duration
}

// Service implements the RPC methods of logins.
type Service struct {
	Config
	slots *keyed.Slots
	flows *flows
}

// New makes the service.
func New(c Config) *Service {
	c.MinTTL, c.MaxTTL = cmp.Or(c.MinTTL, defaultMinTTL), cmp.Or(c.MaxTTL, defaultMaxTTL)
	return &Service{Config: c, slots: keyed.NewSlots(methodLogins, allLogins), flows: newFlows()}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		bind(s, wire.ACLAuthMethodList, s.Methods),
		bind(s, wire.ACLAuthMethodGet, s.Method),
		bind(s, wire.ACLAuthMethodUpsert, s.UpsertMethod),
		bind(s, wire.ACLAuthMethodDelete, s.DeleteMethod),
		bind(s, wire.ACLBindingRuleList, s.Rules),
		bind(s, wire.ACLBindingRuleGet, s.Rule),
		bind(s, wire.ACLBindingRuleUpsert, s.UpsertRule),
		bind(s, wire.ACLBindingRuleDelete, s.DeleteRule),
		bind(s, wire.ACLLogin, s.Login),
		bind(s, wire.ACLOIDCAuthURL, s.AuthURL),
		bind(s, wire.ACLOIDCCompleteAuth, s.CompleteAuth),
	}
}

// bind refuses a method without access control.
func bind[Q, R any](s *Service, m wire.Method[Q, R], serve func(context.Context, *Q) (*R, error)) wire.Handler {
	return m.Handle(func(ctx context.Context, req *Q) (*R, error) {
		if !s.Enabled {
			return nil, access.ErrDisabled
		}
		return serve(ctx, req)
	})
}

var (
	methodTable = []state.Key{state.TableKey(state.TableACLAuthMethods)}
	ruleTable   = []state.Key{state.TableKey(state.TableACLBindingRules)}
)

// Methods lists auth methods without their configuration: everyone may read the list.
func (s *Service) Methods(ctx context.Context, q *api.QueryOptions) (*api.ACLAuthMethodListResponse, error) {
	out := &api.ACLAuthMethodListResponse{}
	err := rpc.Block(ctx, s.State, q, &out.QueryMeta, methodTable, func(tx *state.Txn) error {
		out.Methods = nil
		for m := range tx.ACLAuthMethods() {
			out.Methods = append(out.Methods, &api.ACLAuthMethod{
				Name: m.Name, Type: m.Type, Default: m.Default, Hash: m.Hash, CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex,
			})
		}
		return nil
	})
	return out, err
}

// Method reads one auth method.
func (s *Service) Method(ctx context.Context, r *api.NameRequest) (*api.ACLAuthMethodResponse, error) {
	out := &api.ACLAuthMethodResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, methodTable, func(tx *state.Txn) error {
		out.Method = tx.ACLAuthMethod(r.Name)
		return nil
	})
	return out, err
}

// UpsertMethod creates or replaces an auth method.
func (s *Service) UpsertMethod(ctx context.Context, r *api.ACLAuthMethodUpsertRequest) (*api.ACLAuthMethodWriteResponse, error) {
	if r.Method == nil {
		return nil, fault.New(fault.Invalid, "missing auth method")
	}
	m := *r.Method
	if err := s.checkMethod(&m); err != nil {
		return nil, err
	}
	m.CreateTime = time.Now().UTC()
	m.ModifyTime = m.CreateTime
	m.Hash = hashMethod(&m)
	res, err := s.Raft.Propose(ctx, &UpsertMethod{Method: &m})
	if err != nil {
		return nil, err
	}
	stored := s.State.Read().ACLAuthMethod(m.Name)
	if stored == nil {
		return nil, fault.New(fault.Conflict, "auth method %q was deleted meanwhile", m.Name)
	}
	return &api.ACLAuthMethodWriteResponse{Method: stored, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// DeleteMethod deletes an auth method and its binding rules.
func (s *Service) DeleteMethod(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &DeleteMethod{Name: r.Name})
}

// Rules lists binding rules by id.
func (s *Service) Rules(ctx context.Context, q *api.QueryOptions) (*api.ACLBindingRuleListResponse, error) {
	out := &api.ACLBindingRuleListResponse{}
	err := rpc.Block(ctx, s.State, q, &out.QueryMeta, ruleTable, func(tx *state.Txn) error {
		out.Rules = nil
		for r := range tx.ACLBindingRules() {
			out.Rules = append(out.Rules, r)
		}
		return nil
	})
	return out, err
}

// Rule reads one binding rule.
func (s *Service) Rule(ctx context.Context, r *api.NameRequest) (*api.ACLBindingRuleResponse, error) {
	out := &api.ACLBindingRuleResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, ruleTable, func(tx *state.Txn) error {
		out.Rule = tx.ACLBindingRule(r.Name)
		return nil
	})
	return out, err
}

// UpsertRule creates a binding rule, or replaces the one with the id.
func (s *Service) UpsertRule(ctx context.Context, r *api.ACLBindingRuleUpsertRequest) (*api.ACLBindingRuleWriteResponse, error) {
	if r.Rule == nil {
		return nil, fault.New(fault.Invalid, "missing binding rule")
	}
	b := *r.Rule
	if b.ID == "" {
		b.ID = uuid.NewString()
	} else if old := s.State.Read().ACLBindingRule(b.ID); old == nil {
		return nil, fault.New(fault.NotFound, "cannot find binding rule %s", b.ID)
	} else {
		b.AuthMethod = cmp.Or(b.AuthMethod, old.AuthMethod)
	}
	if err := checkRule(&b); err != nil {
		return nil, err
	}
	b.CreateTime = time.Now().UTC()
	b.ModifyTime = b.CreateTime
	b.Hash = hashRule(&b)
	res, err := s.Raft.Propose(ctx, &UpsertRule{Rule: &b})
	if err != nil {
		return nil, err
	}
	stored := s.State.Read().ACLBindingRule(b.ID)
	if stored == nil {
		return nil, fault.New(fault.Conflict, "binding rule %s was deleted meanwhile", b.ID)
	}
	return &api.ACLBindingRuleWriteResponse{Rule: stored, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// DeleteRule deletes a binding rule.
func (s *Service) DeleteRule(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &DeleteRule{ID: r.Name})
}

func (s *Service) propose(ctx context.Context, cmd fsm.Command) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}
