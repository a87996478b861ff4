package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// putBuiltins stores what every cluster has from the start.
func (t *Txn) putBuiltins() {
	t.PutNamespace(&api.Namespace{Name: api.DefaultNamespace, Description: "Default shared namespace"})
	t.PutNodePool(&api.NodePool{Name: api.NodePoolAll, Description: "Node pool with all nodes in the cluster."})
	t.PutNodePool(&api.NodePool{Name: api.NodePoolDefault, Description: "Default node pool."})
}

// Namespace returns the namespace, or nil.
func (t *Txn) Namespace(name string) *api.Namespace { return namespaces.get(t, name) }

// Namespaces lists all namespaces by name.
func (t *Txn) Namespaces() iter.Seq[*api.Namespace] { return namespaces.all(t) }

// PutNamespace stores the namespace.
func (t *Txn) PutNamespace(n *api.Namespace) { namespaces.put(t, n) }

// DeleteNamespace deletes the namespace and reports whether there was one.
func (t *Txn) DeleteNamespace(name string) bool { return namespaces.remove(t, t.Namespace(name)) }

// NodePool returns the node pool, or nil.
func (t *Txn) NodePool(name string) *api.NodePool { return nodePools.get(t, name) }

// NodePools lists all node pools by name.
func (t *Txn) NodePools() iter.Seq[*api.NodePool] { return nodePools.all(t) }

// PutNodePool stores the node pool.
func (t *Txn) PutNodePool(p *api.NodePool) { nodePools.put(t, p) }

// DeleteNodePool deletes the node pool and reports whether there was one.
func (t *Txn) DeleteNodePool(name string) bool { return nodePools.remove(t, t.NodePool(name)) }

// SchedulerConfig returns the scheduling configuration, the default one when none was stored.
func (t *Txn) SchedulerConfig() *api.SchedulerConfiguration {
	if c := schedulerConfigs.get(t, "scheduler"); c != nil {
		return c
	}
	return &api.SchedulerConfiguration{
		SchedulerAlgorithm: api.SchedulerAlgorithmBinpack,
		PreemptionConfig:   api.PreemptionConfig{SystemSchedulerEnabled: true},
	}
}

// PutSchedulerConfig stores the scheduling configuration.
func (t *Txn) PutSchedulerConfig(c *api.SchedulerConfiguration) {
	schedulerConfigs.put(t, c)
}

// AutopilotConfig returns the autopilot's configuration, the default one when none was stored.
func (t *Txn) AutopilotConfig() *api.AutopilotConfiguration {
	if c := autopilotConfigs.get(t, "autopilot"); c != nil {
		return c
	}
	return api.DefaultAutopilot()
}

// PutAutopilotConfig stores the autopilot's configuration.
func (t *Txn) PutAutopilotConfig(c *api.AutopilotConfiguration) {
	autopilotConfigs.put(t, c)
}
