package httpapi

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var searchRoutes = []route{
	{method: "PUT", pattern: "/v1/search", serve: search},
}

// searchLimit is how many matches of one context are answered.
const searchLimit = 20

// searchAnswer is the answer of a prefix search.
type searchAnswer struct {
	Matches     map[string][]string
	Truncations map[string]bool
	api.QueryMeta
}

// finder lists the ids of one context that begin with the prefix of q.
type finder struct {
	context string
	find    func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error)
}

var finders = []finder{
	{"allocs", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.AllocList.Call(c.ctx(), c.Servers, &api.AllocListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Allocs, func(a *api.Allocation) string { return a.ID }), out.QueryMeta, nil
	}},
	{"jobs", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.JobList.Call(c.ctx(), c.Servers, &api.JobListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Jobs, func(j *api.JobStub) string { return j.ID }), out.QueryMeta, nil
	}},
	{"nodes", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.NodeList.Call(c.ctx(), c.Servers, &api.NodeListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Nodes, func(n *api.NodeStub) string { return n.ID }), out.QueryMeta, nil
	}},
	{"evals", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.EvalList.Call(c.ctx(), c.Servers, &api.EvalListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Evaluations, func(e *api.Evaluation) string { return e.ID }), out.QueryMeta, nil
	}},
	{"deployment", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.DeploymentList.Call(c.ctx(), c.Servers, &q)
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Deployments, func(d *api.Deployment) string { return d.ID }), out.QueryMeta, nil
	}},
	{"scaling_policy", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.ScalingPolicyList.Call(c.ctx(), c.Servers, &api.ScalingPolicyListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Policies, func(p *api.ScalingPolicy) string { return p.ID }), out.QueryMeta, nil
	}},
	{"plugins", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.PluginList.Call(c.ctx(), c.Servers, &api.PluginListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Plugins, func(p *api.PluginStub) string { return p.ID }), out.QueryMeta, nil
	}},
	{"volumes", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.VolumeList.Call(c.ctx(), c.Servers, &api.VolumeListRequest{QueryOptions: q})
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Volumes, func(v *api.VolumeStub) string { return v.ID }), out.QueryMeta, nil
	}},
	{"namespaces", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.NamespaceList.Call(c.ctx(), c.Servers, &q)
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Namespaces, func(n *api.Namespace) string { return n.Name }), out.QueryMeta, nil
	}},
	{"node_pools", func(c *call, q api.QueryOptions) ([]string, api.QueryMeta, error) {
		out, err := wire.NodePoolList.Call(c.ctx(), c.Servers, &q)
		if err != nil {
			return nil, api.QueryMeta{}, err
		}
		return ids(out.Pools, func(p *api.NodePool) string { return p.Name }), out.QueryMeta, nil
	}},
}

func ids[T any](rows []*T, id func(*T) string) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		out = append(out, id(r))
	}
	return out
}

func search(c *call) (any, error) {
	var body struct{ Prefix, Context string }
	if err := c.decode(bodyBytes, &body); err != nil {
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
	q := c.reads()
	q.Prefix, q.MinIndex = body.Prefix, 0
	for _, f := range finders {
		if body.Context != "" && body.Context != "all" && body.Context != f.context {
			continue
		}
		found, meta, err := f.find(c, q)
		if fault.Of(err) == fault.Unimplemented {
			continue // these servers have no such objects
		}
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(id string) bool { return !strings.HasPrefix(id, body.Prefix) })
		slices.Sort(found)
		answer.Truncations[f.context] = len(found) > searchLimit
		answer.Matches[f.context] = found[:min(len(found), searchLimit)]
		if answer.Index == 0 || meta.Index > answer.Index {
			answer.QueryMeta = meta
		}
	}
	c.read(answer.QueryMeta)
	return answer, nil
}
