package search

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// kind is a kind of stored object, whose rows give matches of one or more contexts.
type kind struct {
	contexts []string
	tables   []string
	// right is needed in the namespace of a row, or for rows without a namespace; empty needs none.
	right api.Right
	// byID are found by the beginning of their ids; their lists are in a response also when they are empty.
	byID bool
	walk func(*state.Txn, *view, *collector)
}

// view is what a caller sees.
type view struct {
	ns     string
	rights *policy.Rights
}

// sees reports whether the caller has a right in a namespace.
func (v *view) sees(right api.Right, ns string) bool { return v.rights.Allows(right, ns) }

// listable reports whether the caller may see any object of the kind.
func (k kind) listable(rights *policy.Rights, ns string) bool {
	switch {
	case k.right.On == "":
		return true
	case k.right.On == api.OnNamespace && ns != api.AllNamespaces:
		return rights.Allows(k.right, ns)
	case k.right.On == api.OnNamespace || k.right.On == api.OnNodePool:
		return rights.AllowsSomewhere(k.right)
	}
	return rights.Allows(k.right, "")
}

var (
	listJobs        = api.Right{On: api.OnNamespace, Any: []string{"list-jobs", "read-job"}}
	readJob         = api.Right{On: api.OnNamespace, Any: []string{"read-job"}}
	listScaling     = api.Right{On: api.OnNamespace, Any: []string{"list-scaling-policies", "read-job"}}
	listVolumes     = api.Right{On: api.OnNamespace, Any: []string{"csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs"}}
	readHostVolumes = api.Right{On: api.OnNamespace, Any: []string{"host-volume-read"}}
	readNodes       = api.Right{On: api.OnNode, Any: []string{"read"}}
	readPools       = api.Right{On: api.OnNodePool, Any: []string{"read"}}
	listPlugins     = api.Right{On: api.OnPlugin, Any: []string{"list", "read"}}
)

var kinds = []kind{
	{
		contexts: []string{api.SearchJobs, api.SearchGroups, api.SearchTasks, api.SearchImages, api.SearchCommands, api.SearchClasses, api.SearchServices},
		tables:   []string{state.TableJobs}, right: listJobs, walk: jobs,
	},
	{contexts: []string{api.SearchAllocs}, tables: []string{state.TableAllocs}, right: readJob, walk: func(tx *state.Txn, v *view, c *collector) {
		for a := range tx.Allocs(v.ns) {
			if v.sees(readJob, a.Namespace) {
				c.add(api.SearchAllocs, a.Name, func() []string { return []string{a.Namespace, a.ID} })
			}
		}
	}},
	{contexts: []string{api.SearchNodes}, tables: []string{state.TableNodes}, right: readNodes, walk: func(tx *state.Txn, _ *view, c *collector) {
		for n := range tx.Nodes() {
			c.add(api.SearchNodes, n.Name, func() []string { return []string{n.ID} })
		}
	}},
	{contexts: []string{api.SearchPools}, tables: []string{state.TableNodePools}, right: readPools, walk: func(tx *state.Txn, v *view, c *collector) {
		for p := range tx.NodePools() {
			if v.sees(readPools, p.Name) {
				c.add(api.SearchPools, p.Name, none)
			}
		}
	}},
	{contexts: []string{api.SearchNamespaces}, tables: []string{state.TableNamespaces}, walk: func(tx *state.Txn, v *view, c *collector) {
		for n := range tx.Namespaces() {
			if v.rights.Sees(n.Name) {
				c.add(api.SearchNamespaces, n.Name, none)
			}
		}
	}},
	{contexts: []string{api.SearchPlugins}, tables: []string{state.TableNodes, state.TableJobs}, right: listPlugins, walk: func(tx *state.Txn, _ *view, c *collector) {
		for _, id := range pluginview.IDs(tx) {
			c.add(api.SearchPlugins, id, none)
		}
	}},
	{contexts: []string{api.SearchVolumes}, tables: []string{state.TableVolumes}, right: listVolumes, byID: true, walk: func(tx *state.Txn, row *view, c *collector) {
		for v := range tx.Volumes(row.ns) {
			if row.sees(listVolumes, v.Namespace) {
				c.add(api.SearchVolumes, v.ID, func() []string { return []string{v.Namespace, v.ID} })
			}
		}
	}},
	{contexts: []string{api.SearchHostVolumes}, tables: []string{state.TableHostVolumes}, right: readHostVolumes, byID: true, walk: func(tx *state.Txn, row *view, c *collector) {
		for v := range tx.HostVolumes(row.ns) {
			if row.sees(readHostVolumes, v.Namespace) {
				c.add(api.SearchHostVolumes, v.Name, func() []string { return []string{v.Namespace, v.ID} })
			}
		}
	}},
	{contexts: []string{api.SearchVariables}, tables: []string{state.TableVariables}, walk: func(tx *state.Txn, v *view, c *collector) {
		for row := range tx.VariableSpan(state.Span{Namespace: v.ns}) {
			if v.rights.Variables(row.Namespace, row.Path, "list") {
				c.add(api.SearchVariables, row.Path, func() []string { return []string{row.Namespace, row.Path} })
			}
		}
	}},
	{contexts: []string{api.SearchEvals}, tables: []string{state.TableEvals}, right: readJob, byID: true, walk: func(tx *state.Txn, v *view, c *collector) {
		for e := range tx.Evals(v.ns) {
			if v.sees(readJob, e.Namespace) {
				c.prefix(api.SearchEvals, e.ID, func() []string { return []string{e.Namespace, e.ID} })
			}
		}
	}},
	{contexts: []string{api.SearchDeploys}, tables: []string{state.TableDeployments}, right: readJob, byID: true, walk: func(tx *state.Txn, v *view, c *collector) {
		for d := range tx.Deployments(v.ns) {
			if v.sees(readJob, d.Namespace) {
				c.prefix(api.SearchDeploys, d.ID, func() []string { return []string{d.Namespace, d.ID} })
			}
		}
	}},
	{contexts: []string{api.SearchPolicies}, tables: []string{state.TableJobs}, right: listScaling, byID: true, walk: func(tx *state.Txn, v *view, c *collector) {
		for p := range tx.PolicySpan(state.Span{Namespace: v.ns}) {
			if v.sees(listScaling, p.Job.Namespace) {
				c.prefix(api.SearchPolicies, p.ID, func() []string { return []string{p.Job.Namespace, p.ID} })
			}
		}
	}},
}

func none() []string { return nil }

// jobs finds jobs, and what they are made of.
func jobs(tx *state.Txn, v *view, c *collector) {
	for j := range tx.Jobs(v.ns) {
		if !v.sees(listJobs, j.Namespace) {
			continue
		}
		c.add(api.SearchJobs, j.Name, func() []string { return []string{j.Namespace, j.ID} })
		if v.sees(readJob, j.Namespace) {
			parts(j, c)
		}
	}
}

// parts finds the groups, the tasks and the services of a job, and what its tasks run.
func parts(j *api.Job, c *collector) {
	for _, g := range j.TaskGroups {
		inGroup := func() []string { return []string{j.Namespace, j.ID, g.Name} }
		c.add(api.SearchGroups, g.Name, func() []string { return []string{j.Namespace, j.ID} })
		for _, s := range g.Services {
			c.add(api.SearchServices, s.Name, inGroup)
		}
		for _, t := range g.Tasks {
			inTask := func() []string { return append(inGroup(), t.Name) }
			c.add(api.SearchTasks, t.Name, inGroup)
			for _, s := range t.Services {
				c.add(api.SearchServices, s.Name, inTask)
			}
			for key, context := range map[string]string{"image": api.SearchImages, "command": api.SearchCommands, "class": api.SearchClasses} {
				if text, ok := t.Config[key].(string); ok {
					c.add(context, text, inTask)
				}
			}
		}
	}
}
