package namespaces

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	State *state.Store
	Raft  fsm.Proposer
}

// Service implements the RPC methods of namespaces and node pools.
type Service struct {
	Config
}

// New makes the service.
func New(c Config) *Service { return &Service{c} }

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.NamespaceList.Handle(s.List),
		wire.NamespaceGet.Handle(s.Get),
		wire.NamespaceUpsert.Handle(s.Upsert),
		wire.NamespaceDelete.Handle(s.Delete),
		wire.NodePoolList.Handle(s.Pools),
		wire.NodePoolGet.Handle(s.Pool),
		wire.NodePoolUpsert.Handle(s.UpsertPool),
		wire.NodePoolDelete.Handle(s.DeletePool),
	}
}

// List lists namespaces by name.
func (s *Service) List(ctx context.Context, q *api.QueryOptions) (*api.NamespaceListResponse, error) {
	out := &api.NamespaceListResponse{}
	var err error
	out.Namespaces, err = page.Read(ctx, s.State, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableNamespaces)}, func(tx *state.Txn) page.List[*api.Namespace, *api.Namespace] {
		l := page.Stored(tx.NamespaceSpan, func(n *api.Namespace) string { return n.Name })
		l.Keep = func(n *api.Namespace) bool { return access.Of(ctx).Rights.Sees(n.Name) }
		return l
	})
	return out, err
}

// Get reads one namespace.
func (s *Service) Get(ctx context.Context, r *api.NameRequest) (*api.NamespaceGetResponse, error) {
	out := &api.NamespaceGetResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableNamespaces)}, func(tx *state.Txn) error {
		out.Namespace = nil
		if access.Of(ctx).Rights.Sees(r.Name) {
			out.Namespace = tx.Namespace(r.Name)
		}
		return nil
	})
	return out, err
}

// Upsert creates or replaces a namespace.
func (s *Service) Upsert(ctx context.Context, r *api.NamespaceUpsertRequest) (*api.WriteMeta, error) {
	if r.Spec == nil {
		return nil, fault.New(fault.Invalid, "missing namespace specification")
	}
	n := *r.Spec
	if err := checkNamespace(s.State.Read(), &n); err != nil {
		return nil, err
	}
	return s.propose(ctx, &UpsertNamespace{Namespace: &n})
}

// Delete forgets a namespace that nothing uses.
func (s *Service) Delete(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	if r.Name == api.DefaultNamespace {
		return nil, fault.New(fault.Invalid, "can not delete default namespace")
	}
	return s.propose(ctx, &DeleteNamespace{Name: r.Name})
}

// Pools lists node pools by name.
func (s *Service) Pools(ctx context.Context, q *api.QueryOptions) (*api.NodePoolListResponse, error) {
	out := &api.NodePoolListResponse{}
	var err error
	out.Pools, err = page.Read(ctx, s.State, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableNodePools)}, func(tx *state.Txn) page.List[*api.NodePool, *api.NodePool] {
		l := page.Stored(tx.NodePoolSpan, func(p *api.NodePool) string { return p.Name })
		l.Keep = func(p *api.NodePool) bool { return access.Sees(ctx, p.Name) }
		return l
	})
	return out, err
}

// Pool reads one node pool.
func (s *Service) Pool(ctx context.Context, r *api.NameRequest) (*api.NodePoolGetResponse, error) {
	out := &api.NodePoolGetResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableNodePools)}, func(tx *state.Txn) error {
		out.Pool = nil
		if access.Sees(ctx, r.Name) {
			out.Pool = tx.NodePool(r.Name)
		}
		return nil
	})
	return out, err
}

// UpsertPool creates or replaces a node pool.
func (s *Service) UpsertPool(ctx context.Context, r *api.NodePoolUpsertRequest) (*api.WriteMeta, error) {
	if r.Spec == nil {
		return nil, fault.New(fault.Invalid, "missing node pool specification")
	}
	if !access.Sees(ctx, r.Spec.Name) {
		return nil, access.ErrDenied
	}
	p := *r.Spec
	if err := checkPool(&p); err != nil {
		return nil, err
	}
	return s.propose(ctx, &UpsertPool{Pool: &p})
}

// DeletePool forgets a node pool that nothing uses.
func (s *Service) DeletePool(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	if !access.Sees(ctx, r.Name) {
		return nil, access.ErrDenied
	}
	if builtinPool(r.Name) {
		return nil, fault.New(fault.Invalid, "node pool %q is built in and cannot be deleted", r.Name)
	}
	return s.propose(ctx, &DeletePool{Name: r.Name})
}

func (s *Service) propose(ctx context.Context, cmd fsm.Command) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}
