package pluginview

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Of counts a plugin from the nodes that report it and the jobs that declare it; nil when
// there are neither.
func Of(tx *state.Txn, id string) *api.Plugin {
	p := &api.Plugin{ID: id, Controllers: map[string]*api.CSIInfo{}, Nodes: map[string]*api.CSIInfo{}}
	for n := range tx.NodesByPlugin(id) {
		seen(p, n.CreateIndex, n.ModifyIndex)
		ready := n.Status == api.NodeStatusReady
		if i := n.CSIControllerPlugins[id]; i != nil {
			p.Controllers[n.ID] = i
			p.ControllersHealthy += count(ready && i.Healthy)
			describe(p, i)
		}
		if i := n.CSINodePlugins[id]; i != nil {
			p.Nodes[n.ID] = i
			p.NodesHealthy += count(ready && i.Healthy)
			describe(p, i)
		}
	}
	p.ControllerRequired = claim.ControllersOf(tx.NodesByPlugin(id), id).Attach
	for j := range tx.JobsByPlugin(id) {
		expect(tx, p, j)
	}
	if p.CreateIndex == 0 {
		return nil
	}
	return p
}

// HasController reports whether the plugin has a controller service, if only one that attaches nothing.
func HasController(tx *state.Txn, id string) bool {
	return claim.ControllersOf(tx.NodesByPlugin(id), id).Service
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func seen(p *api.Plugin, create, modify uint64) {
	if p.CreateIndex == 0 || create < p.CreateIndex {
		p.CreateIndex = max(create, 1)
	}
	p.ModifyIndex = max(p.ModifyIndex, modify)
}

// describe copies what an instance reports about the plugin.
func describe(p *api.Plugin, i *api.CSIInfo) {
	if i.Provider != "" && i.OwnedBy == "" {
		p.Provider, p.Version = i.Provider, i.ProviderVersion
	}
	if at := i.UpdateTime.UnixNano(); !i.UpdateTime.IsZero() {
		p.ModifyTime = max(p.ModifyTime, at)
		if p.CreateTime == 0 || at < p.CreateTime {
			p.CreateTime = at
		}
	}
}

// expect adds the instances that a job is to run. The nodes of a system job are those where it has
// an allocation that should run.
func expect(tx *state.Txn, p *api.Plugin, j *api.Job) {
	if j.Stop {
		return
	}
	for _, g := range j.TaskGroups {
		controller, node := provides(g, p.ID)
		if !controller && !node {
			continue
		}
		seen(p, j.CreateIndex, j.ModifyIndex)
		n := g.Count
		if j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch {
			n = running(tx, j, g.Name)
		}
		if controller {
			p.ControllersExpected += n
		}
		if node {
			p.NodesExpected += n
		}
	}
}

func provides(g *api.TaskGroup, plugin string) (controller, node bool) {
	for _, t := range g.Tasks {
		c := t.CSIPluginConfig
		if c == nil || c.ID != plugin {
			continue
		}
		controller = controller || c.Type == api.CSIPluginTypeController || c.Type == api.CSIPluginTypeMonolith
		node = node || c.Type == api.CSIPluginTypeNode || c.Type == api.CSIPluginTypeMonolith
	}
	return controller, node
}

func running(tx *state.Txn, j *api.Job, group string) int {
	nodes := map[string]bool{}
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if a.TaskGroup == group && a.DesiredStatus == api.AllocDesiredStatusRun && a.ClientStatus != api.AllocClientStatusLost {
			nodes[a.NodeID] = true
		}
	}
	return len(nodes)
}

// IDs lists the plugins that a node reports or a job declares, sorted.
func IDs(tx *state.Txn) []string {
	ids := map[string]bool{}
	for n := range tx.Nodes() {
		for id := range n.CSIControllerPlugins {
			ids[id] = true
		}
		for id := range n.CSINodePlugins {
			ids[id] = true
		}
	}
	for j := range tx.Jobs(api.AllNamespaces) {
		for _, g := range j.TaskGroups {
			for _, t := range g.Tasks {
				if t.CSIPluginConfig != nil {
					ids[t.CSIPluginConfig.ID] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}
