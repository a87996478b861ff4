package quotas

import (
	"cmp"
	"context"
	"encoding/base64"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	State *state.Store
	Raft  fsm.Proposer
	// Region is the region of the servers; empty means global.
	Region string
}

// Service implements the RPC methods of quotas.
type Service struct {
	Config
}

// New makes the service.
func New(c Config) *Service {
	c.Region = cmp.Or(c.Region, api.GlobalRegion)
	return &Service{c}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.QuotaList.Handle(s.List),
		wire.QuotaGet.Handle(s.Get),
		wire.QuotaUsages.Handle(s.Usages),
		wire.QuotaUsage.Handle(s.Usage),
		wire.QuotaUpsert.Handle(s.Upsert),
		wire.QuotaDelete.Handle(s.Delete),
	}
}

var (
	specs = []state.Key{state.TableKey(state.TableQuotas)}
	used  = append(specs[:1:1], state.TableKey(state.TableNamespaces), state.TableKey(state.TableAllocs), state.TableKey(state.TableVolumes),
		state.TableKey(state.TableVariables))
)

func name(q *api.QuotaSpec) string { return q.Name }

// List lists quotas by name.
func (s *Service) List(ctx context.Context, q *api.QueryOptions) (*api.QuotaListResponse, error) {
	out := &api.QuotaListResponse{}
	var err error
	out.Quotas, err = page.Read(ctx, s.State, q, &out.QueryMeta, specs, func(tx *state.Txn) page.List[*api.QuotaSpec, *api.QuotaSpec] {
		return page.Stored(tx.QuotaSpan, name)
	})
	return out, err
}

// Get reads one quota.
func (s *Service) Get(ctx context.Context, r *api.NameRequest) (*api.QuotaResponse, error) {
	out := &api.QuotaResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, specs, func(tx *state.Txn) error {
		out.Quota = tx.Quota(r.Name)
		return nil
	})
	return out, err
}

// Usages lists what quotas use, by name.
func (s *Service) Usages(ctx context.Context, q *api.QueryOptions) (*api.QuotaUsageListResponse, error) {
	out := &api.QuotaUsageListResponse{}
	var err error
	out.Usages, err = page.Read(ctx, s.State, q, &out.QueryMeta, used, func(tx *state.Txn) page.List[*api.QuotaSpec, *api.QuotaUsage] {
		return page.List[*api.QuotaSpec, *api.QuotaUsage]{
			Walk: tx.QuotaSpan, Token: name, View: func(q *api.QuotaSpec) any { return q }, Row: func(q *api.QuotaSpec) *api.QuotaUsage { return usageOf(tx, q) },
		}
	})
	return out, err
}

// Usage reads what one quota uses.
func (s *Service) Usage(ctx context.Context, r *api.NameRequest) (*api.QuotaUsageResponse, error) {
	out := &api.QuotaUsageResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, used, func(tx *state.Txn) error {
		out.Usage = nil
		if q := tx.Quota(r.Name); q != nil {
			out.Usage = usageOf(tx, q)
		}
		return nil
	})
	return out, err
}

// usageOf counts what the namespaces of the quota use.
func usageOf(tx *state.Txn, q *api.QuotaSpec) *api.QuotaUsage {
	u := &api.QuotaUsage{Name: q.Name, Used: map[string]*api.QuotaLimit{}, CreateIndex: q.CreateIndex, ModifyIndex: q.ModifyIndex}
	if len(q.Limits) == 0 {
		return u
	}
	l, book, stored := q.Limits[0], quota.Of(tx, q), quota.VolumesOf(tx, q)
	sum, variables := book.Used(""), int(quota.MB(quota.VariablesOf(tx, q)))
	r := &api.QuotaResources{
		CPU: number(sum.CPU), Cores: number(sum.Cores), MemoryMB: number(sum.MemoryMB), MemoryMaxMB: number(sum.MemoryMaxMB), SecretsMB: number(sum.SecretsMB),
		Storage: &api.QuotaStorageResources{VariablesMB: variables, Volumes: int(stored.Volumes), VolumesMB: int(stored.MB), HostVolumesMB: int(quota.HostVolumesOf(tx, q))},
	}
	if l.RegionLimit != nil {
		r.Devices = sum.Towards(l.RegionLimit.Devices)
		for _, p := range l.RegionLimit.NodePools {
			n := book.Used(p.NodePool)
			r.NodePools = append(r.NodePools, &api.NodePoolLimit{
				NodePool: p.NodePool, CPU: number(n.CPU), Cores: number(n.Cores), MemoryMB: number(n.MemoryMB), MemoryMaxMB: number(n.MemoryMaxMB),
				SecretsMB: number(n.SecretsMB), Devices: n.Towards(p.Devices),
			})
		}
	}
	u.Used[base64.StdEncoding.EncodeToString(l.Hash)] = &api.QuotaLimit{Region: l.Region, RegionLimit: r, VariablesLimit: &variables, Hash: l.Hash}
	return u
}

func number(n int64) *int { return new(int(n)) }

// Upsert creates or replaces a quota.
func (s *Service) Upsert(ctx context.Context, r *api.QuotaUpsertRequest) (*api.WriteMeta, error) {
	if r.Quota == nil {
		return nil, fault.New(fault.Invalid, "missing quota specification")
	}
	q, err := checked(s.State.Read(), r.Quota, s.Region)
	if err != nil {
		return nil, err
	}
	return s.propose(ctx, &Upsert{Quota: q})
}

// Delete deletes a quota that no namespace has.
func (s *Service) Delete(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &Delete{Name: r.Name})
}

func (s *Service) propose(ctx context.Context, cmd fsm.Command) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}
