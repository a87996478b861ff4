package services

import (
	"cmp"
	"context"
	"hash/fnv"
	"iter"
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
		out.Services = listed(tx.ServicesByName(ns, q.Prefix), q.Prefix, func(in string) bool { return readable(ctx, in) })
		return nil
	})
	return out, err
}

// listed makes the list of services of instances that are in the order of namespaces and names.
func listed(rows iter.Seq[*api.ServiceRegistration], prefix string, readable func(ns string) bool) []*api.ServiceNamespace {
	out := []*api.ServiceNamespace{}
	seen, visible := "", false
	var in *api.ServiceNamespace
	var last *api.ServiceStub
	for row := range rows {
		if seen != row.Namespace {
			seen, visible, in, last = row.Namespace, readable(row.Namespace), nil, nil
		}
		switch {
		case !visible || !strings.HasPrefix(row.ServiceName, prefix):
			continue
		case last != nil && last.ServiceName == row.ServiceName:
			last.Tags = append(last.Tags, row.Tags...)
			continue
		case in == nil:
			in = &api.ServiceNamespace{Namespace: row.Namespace}
			out = append(out, in)
		}
		// Tags of the first instance belong to the state: appending copies them.
		last = &api.ServiceStub{ServiceName: row.ServiceName, Tags: slices.Clip(row.Tags)}
		in.Services = append(in.Services, last)
	}
	for _, of := range out {
		for _, s := range of.Services {
			if !sortedSet(s.Tags) {
				s.Tags = slices.Compact(slices.Sorted(slices.Values(s.Tags)))
			}
		}
	}
	return out
}

// sortedSet reports whether each text is less than the next.
func sortedSet(texts []string) bool {
	for i := 1; i < len(texts); i++ {
		if texts[i-1] >= texts[i] {
			return false
		}
	}
	return true
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
