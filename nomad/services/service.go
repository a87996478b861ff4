package services

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

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

// Service implements the RPC methods of services.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service { return &Service{c} }

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.ServiceList.Handle(s.List),
		wire.ServiceGet.Handle(s.Get),
		wire.ServiceDelete.Handle(s.Delete),
		wire.ServiceOfAlloc.Handle(s.OfAlloc),
		wire.ServiceOfJob.Handle(s.OfJob),
	}
}

var readJob = api.Right{On: api.OnNamespace, Any: []string{"read-job"}}

// readable reports whether the caller may read the services of a namespace. A workload may read those of its own.
func readable(ctx context.Context, ns string) bool {
	c := access.Of(ctx)
	return c.Rights.Allows(readJob, ns) || c.Identity != nil && c.Identity.Namespace == ns
}

// List lists the services of the namespaces that the caller may read, by name.
func (s *Service) List(ctx context.Context, q *api.QueryOptions) (*api.ServiceListResponse, error) {
	out := &api.ServiceListResponse{}
	ns := cmp.Or(q.Namespace, api.DefaultNamespace)
	err := rpc.Block(ctx, s.State, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableServices)}, func(tx *state.Txn) error {
		if ns != api.AllNamespaces && !readable(ctx, ns) {
			return access.ErrDenied
		}
		tags := map[string]map[string][]string{}
		for row := range tx.ServiceInstances() {
			if ns != api.AllNamespaces && row.Namespace != ns || !strings.HasPrefix(row.ServiceName, q.Prefix) || !readable(ctx, row.Namespace) {
				continue
			}
			if tags[row.Namespace] == nil {
				tags[row.Namespace] = map[string][]string{}
			}
			tags[row.Namespace][row.ServiceName] = append(tags[row.Namespace][row.ServiceName], row.Tags...)
		}
		out.Services = listed(tags)
		return nil
	})
	return out, err
}

func listed(tags map[string]map[string][]string) []*api.ServiceNamespace {
	out := make([]*api.ServiceNamespace, 0, len(tags))
	for ns, names := range tags {
		of := &api.ServiceNamespace{Namespace: ns}
		for name, all := range names {
			slices.Sort(all)
			of.Services = append(of.Services, &api.ServiceStub{ServiceName: name, Tags: slices.Compact(all)})
		}
		slices.SortFunc(of.Services, func(a, b *api.ServiceStub) int { return cmp.Compare(a.ServiceName, b.ServiceName) })
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b *api.ServiceNamespace) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out
}

// Get lists the instances of one service.
func (s *Service) Get(ctx context.Context, r *api.ServiceRequest) (*api.ServiceInstancesResponse, error) {
	out := &api.ServiceInstancesResponse{}
	ns := cmp.Or(r.Namespace, api.DefaultNamespace)
	count, key, err := parseChoose(r.Choose)
	if err != nil {
		return nil, err
	}
	if !readable(ctx, ns) {
		return nil, access.ErrDenied
	}
	out.Instances, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.ServiceKey(ns, r.ServiceName)},
		func(tx *state.Txn) page.List[*api.ServiceRegistration, *api.ServiceRegistration] {
			rows := slices.Collect(tx.ServiceSpan(ns, r.ServiceName))
			if count > 0 {
				rows = chosen(rows, count, key)
			}
			id := func(row *api.ServiceRegistration) string { return row.ID }
			l := page.Stored(page.Sorted(rows, id), id)
			l.Keep = func(*api.ServiceRegistration) bool { return readable(ctx, ns) }
			return l
		})
	return out, err
}

// parseChoose reads "<number>|<key>"; the number is 0 when text is empty.
func parseChoose(text string) (count int, key string, err error) {
	if text == "" {
		return 0, "", nil
	}
	number, key, ok := strings.Cut(text, "|")
	if count, err = strconv.Atoi(number); !ok || err != nil || count < 1 || key == "" {
		return 0, "", fault.New(fault.Invalid, "choose %.140q is not of the form <number>|<key>, such as 2|abc", text)
	}
	return count, key, nil
}

// chosen returns the instances with the highest hash of key and id: when others come or end, the choice changes as little as possible.
func chosen(rows []*api.ServiceRegistration, count int, key string) []*api.ServiceRegistration {
	weight := func(row *api.ServiceRegistration) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key + "\x00" + row.ID))
		return h.Sum64()
	}
	slices.SortFunc(rows, func(a, b *api.ServiceRegistration) int { return cmp.Compare(weight(b), weight(a)) })
	return rows[:min(count, len(rows))]
}

// OfAlloc lists the instances that an allocation offers.
func (s *Service) OfAlloc(ctx context.Context, r *api.AllocRequest) (*api.ServiceInstancesResponse, error) {
	missing := fault.New(fault.NotFound, "allocation not found")
	out := &api.ServiceInstancesResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.ServicesOfAllocKey(r.AllocID)}, func(tx *state.Txn) error {
		a := tx.Alloc(r.AllocID)
		if a == nil {
			return missing
		}
		if err := access.Refusal(ctx, a.Namespace, missing); err != nil {
			return err
		}
		out.Instances = slices.Collect(tx.ServicesOfAlloc(a.ID))
		return nil
	})
	return out, err
}

// OfJob lists the instances that the allocations of a job offer.
func (s *Service) OfJob(ctx context.Context, r *api.JobRequest) (*api.ServiceInstancesResponse, error) {
	out := &api.ServiceInstancesResponse{}
	ns := cmp.Or(r.Namespace, api.DefaultNamespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.ServicesOfJobKey(ns, r.JobID)}, func(tx *state.Txn) error {
		if tx.Job(ns, r.JobID) == nil {
			return fault.New(fault.NotFound, "job not found")
		}
		out.Instances = slices.Collect(tx.ServicesOfJob(ns, r.JobID))
		return nil
	})
	return out, err
}

// Delete deletes one instance of a service.
func (s *Service) Delete(ctx context.Context, r *api.ServiceDeleteRequest) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, &Delete{Namespace: cmp.Or(r.Namespace, api.DefaultNamespace), ServiceName: r.ServiceName, ID: r.ID})
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}
