package search

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of searches.
var Routes = []endpoint.Route{
	{Method: "PUT", Pattern: "/v1/search", Serve: search},
	{Method: "PUT", Pattern: "/v1/search/fuzzy", Serve: fuzzy},
}

// searchLimit is how many matches of one context are answered.
const searchLimit = 20

// searchAnswer is the response to a prefix search.
type searchAnswer struct {
	Matches     map[string][]string
	Truncations map[string]bool
	api.QueryMeta
}

// finder lists the ids of one context that begin with the prefix of q.
type finder struct {
	context string
	find    func(c *endpoint.Call, q api.QueryOptions) ([]string, api.QueryMeta, error)
}

var finders = []finder{
	{"allocs", by(wire.AllocList, func(out *api.AllocRowsResponse) []string {
		return ids(out.Allocs, func(r *api.Allocation) string { return r.ID })
	})},
	{"jobs", by(wire.JobList, func(out *api.JobListResponse) []string {
		return ids(out.Jobs, func(r *api.JobStub) string { return r.ID })
	})},
	{"nodes", by(wire.NodeList, func(out *api.NodeListResponse) []string {
		return ids(out.Nodes, func(r *api.NodeStub) string { return r.ID })
	})},
	{"evals", by(wire.EvalList, func(out *api.EvalListResponse) []string {
		return ids(out.Evaluations, func(r *api.Evaluation) string { return r.ID })
	})},
	{"deployment", by(wire.DeploymentList, func(out *api.DeploymentListResponse) []string {
		return ids(out.Deployments, func(r *api.Deployment) string { return r.ID })
	})},
	{"scaling_policy", by(wire.ScalingPolicyList, func(out *api.ScalingPolicyListResponse) []string {
		return ids(out.Policies, func(r *api.ScalingPolicy) string { return r.ID })
	})},
	{"plugins", by(wire.PluginList, func(out *api.PluginListResponse) []string {
		return ids(out.Plugins, func(r *api.PluginStub) string { return r.ID })
	})},
	{"volumes", by(wire.VolumeList, func(out *api.VolumeListResponse) []string {
		return ids(out.Volumes, func(r *api.VolumeStub) string { return r.ID })
	})},
	{"host_volumes", by(wire.HostVolumeList, func(out *api.HostVolumeListResponse) []string {
		return ids(out.Volumes, func(r *api.HostVolumeStub) string { return r.ID })
	})},
	{"namespaces", by(wire.NamespaceList, func(out *api.NamespaceListResponse) []string {
		return ids(out.Namespaces, func(r *api.Namespace) string { return r.Name })
	})},
	{"node_pools", by(wire.NodePoolList, func(out *api.NodePoolListResponse) []string {
		return ids(out.Pools, func(r *api.NodePool) string { return r.Name })
	})},
}

// by returns a function that lists with m, given the options of a read, and returns the ids.
func by[Q, R any, A asked[Q], B endpoint.Answer[R]](m wire.Method[Q, R], ids func(*R) []string) func(*endpoint.Call, api.QueryOptions) ([]string, api.QueryMeta, error) {
	return func(c *endpoint.Call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		req := new(Q)
		*A(req).Options() = q
		out, err := m.Call(c.Context(), c.Servers, req)
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out), *B(out).Answer(), nil
	}
}

// asked is a request with the options of a read.
type asked[Q any] interface {
	*Q
	Options() *api.QueryOptions
}

func ids[T any](rows []*T, id func(*T) string) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		out = append(out, id(r))
	}
	return out
}

func search(c *endpoint.Call) (any, error) {
	var body struct{ Prefix, Context string }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(finders))
	for _, f := range finders {
		names = append(names, f.context)
	}
	if body.Context != "" && body.Context != "all" && !slices.Contains(names, body.Context) {
		return nil, fault.New(fault.Invalid, "context must be one of %v or 'all' for all contexts; got %q", names, body.Context)
	}
	answer := searchAnswer{Matches: map[string][]string{}, Truncations: map[string]bool{}}
	q := api.QueryOptions{Region: c.Query.Region, Namespace: c.Query.Namespace, AuthToken: c.Query.AuthToken, Stale: c.Query.Stale, MaxWait: c.Query.MaxWait, Prefix: body.Prefix, PerPage: searchLimit + 1}
	permitted, denied := false, error(nil)
	for _, f := range finders {
		if body.Context != "" && body.Context != "all" && body.Context != f.context {
			continue
		}
		found, meta, err := f.find(c, q)
		if fault.Of(err) == fault.Unimplemented {
			continue // these servers have no such objects
		}
		if fault.Of(err) == fault.Denied && body.Context != f.context {
			denied = err
			continue // the caller may not list them
		}
		if err != nil {
			return nil, err
		}
		permitted = permitted || f.context != "namespaces" // these are filtered for all callers
		found = slices.DeleteFunc(found, func(id string) bool { return !strings.HasPrefix(id, body.Prefix) })
		slices.Sort(found)
		answer.Truncations[f.context] = len(found) > searchLimit
		answer.Matches[f.context] = found[:min(len(found), searchLimit)]
		if answer.Index == 0 || meta.Index > answer.Index {
			answer.QueryMeta = meta
		}
	}
	if denied != nil && !permitted {
		return nil, denied
	}
	c.SetRead(answer.QueryMeta)
	return answer, nil
}

func fuzzy(c *endpoint.Call) (any, error) {
	req := &api.FuzzySearchRequest{}
	if err := c.Decode(endpoint.BodyMax, req); err != nil {
		return nil, err
	}
	req.QueryOptions = c.Query
	return endpoint.Read(c, wire.SearchFuzzy, req)
}
