package evals

import (
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// changed draws the consequences of one changed row; nodes with more capacity are gathered in freed.
func (l *leader) changed(c state.Change, index uint64, freed map[string]bool) {
	switch c.Table {
	case state.TableEvals:
		before, _ := c.Before.(*api.Evaluation)
		after, _ := c.After.(*api.Evaluation)
		l.evalChanged(before, after)
	case state.TableNodes:
		before, _ := c.Before.(*api.Node)
		after, _ := c.After.(*api.Node)
		l.nodeChanged(before, after, index, freed)
	case state.TableAllocs:
		before, _ := c.Before.(*api.Allocation)
		after, _ := c.After.(*api.Allocation)
		l.allocChanged(before, after, index, freed)
	case state.TableJobs:
		if after, ok := c.After.(*api.Job); ok && after != nil {
			l.forgetAsks(after)
		}
	case state.TableVolumes:
		before, _ := c.Before.(*api.Volume)
		after, _ := c.After.(*api.Volume)
		l.volumeChanged(before, after, index)
	case state.TableClaims:
		before, _ := c.Before.(*api.VolumeClaim)
		after, _ := c.After.(*api.VolumeClaim)
		if before != nil && (after == nil || leftNode(after) && !leftNode(before)) {
			l.externalFreed(before.PluginID, before.ExternalID, index)
		}
	case state.TableAttachments:
		if gone, ok := c.Before.(*api.VolumeAttachment); ok && gone != nil && c.After == nil {
			l.externalFreed(gone.PluginID, gone.ExternalID, index)
		}
	case state.TableHostVolumeClaims:
		if gone, ok := c.Before.(*api.HostVolumeClaim); ok && gone != nil && c.After == nil {
			l.needMet(feasible.HostClaimResource(gone.Namespace, gone.ID), index)
		}
	case state.TableQuotas:
		if after, ok := c.After.(*api.QuotaSpec); ok && after != nil {
			l.needMet(broker.QuotaResource(after.Name), index)
		}
	case state.TableNamespaces:
		before, _ := c.Before.(*api.Namespace)
		after, _ := c.After.(*api.Namespace)
		l.quotaChanged(before, after, index)
	case state.TableConfig:
		before, _ := c.Before.(*api.SchedulerConfiguration)
		if c, ok := c.After.(*api.SchedulerConfiguration); ok && c != nil {
			l.configured(before, c)
		}
	}
}

// leftNode reports whether a claim leaves its volume to the next user on the same node.
func leftNode(c *api.VolumeClaim) bool { return c.State == api.ClaimUnmounted && !c.Presumed }

// externalFreed wakes evaluations that wait for an external volume, through any volume that names it, or for a free
// slot of the plugin.
func (l *leader) externalFreed(plugin, external string, index uint64) {
	for v := range l.State.Read().VolumesByExternal(plugin, external) {
		l.needMet(feasible.VolumeResource(v.Namespace, v.ID), index)
	}
	l.needMet(feasible.PluginResource(plugin), index)
}

func (l *leader) wake(evals []*api.Evaluation) {
	for _, e := range evals {
		l.broker.Wake(e)
	}
}

func (l *leader) needMet(resource string, index uint64) { l.wake(l.blocked.NeedMet(resource, index)) }

func (l *leader) evalChanged(before, after *api.Evaluation) {
	if after == nil {
		if before != nil {
			l.forget(before.ID)
		}
		return
	}
	if l.paused {
		return
	}
	switch after.Status {
	case api.EvalStatusPending:
		l.broker.Enqueue(after)
	case api.EvalStatusBlocked:
		delete(l.asks, after.ID)
		l.block(after)
	default:
		l.forget(after.ID)
		if after.PlacedAll() {
			l.end(l.blocked.Superseded(after.Namespace, after.JobID, after.SnapshotIndex), whySuperseded)
		}
	}
}

// block files an evaluation that waits, or has it run when what it waits for came meanwhile.
func (l *leader) block(e *api.Evaluation) {
	missed, duplicate := l.blocked.Block(e)
	if duplicate != nil {
		delete(l.asks, duplicate.ID)
		l.end([]*api.Evaluation{duplicate}, "canceled by a newer blocked evaluation of the job")
	}
	if missed {
		l.wake([]*api.Evaluation{e})
	}
}

func (l *leader) forget(id string) {
	l.broker.Forget(id)
	l.blocked.Forget(id)
	delete(l.asks, id)
}

// forgetAsks: what the job asks for may be something else now.
func (l *leader) forgetAsks(j *api.Job) {
	for _, id := range l.blocked.OfJob(j.Namespace, j.ID) {
		delete(l.asks, id)
	}
}

func (l *leader) nodeChanged(before, after *api.Node, index uint64, freed map[string]bool) {
	for _, m := range staleGone(before, after) {
		l.externalFreed(m.PluginID, m.ExternalID, index)
	}
	if after == nil {
		if before != nil {
			l.wake(l.blocked.NodeGone(before.ID))
			for id := range before.CSIControllerPlugins {
				l.needMet(feasible.PluginResource(id), index)
			}
		}
		return
	}
	if before != nil && (!reflect.DeepEqual(before.Attributes, after.Attributes) || !reflect.DeepEqual(before.Meta, after.Meta) ||
		before.Datacenter != after.Datacenter || before.NodeClass != after.NodeClass || before.Name != after.Name) {
		l.propertiesChanged(after, index)
	}
	for _, id := range pluginsMoved(before, after) {
		l.needMet(feasible.PluginResource(id), index)
	}
	if !feasible.Available(after) || before != nil && !nodeBetter(before, after) {
		return
	}
	freed[after.ID] = true
	for id := range after.CSINodePlugins {
		l.needMet(feasible.PluginResource(id), index)
	}
	for id := range after.CSIControllerPlugins {
		l.needMet(feasible.PluginResource(id), index)
	}
}

// propertiesChanged: what runs on the node uses other values of properties now.
func (l *leader) propertiesChanged(n *api.Node, index uint64) {
	tx := l.State.Read()
	for a := range tx.AllocsByNode(n.ID) {
		if !a.Terminal() {
			l.jobFreed(tx, a, index)
		}
	}
}

// jobFreed wakes the job of an allocation when its allocations keep each other away.
func (l *leader) jobFreed(tx *state.Txn, a *api.Allocation, index uint64) {
	if j := tx.Job(a.Namespace, a.JobID); j != nil && distinct(j) {
		l.wake(l.blocked.JobFreed(a.Namespace, a.JobID, index))
	}
}

// distinct reports whether allocations of the job keep each other away from nodes.
func distinct(j *api.Job) bool {
	any := func(list []*api.Constraint) bool {
		return slices.ContainsFunc(list, func(c *api.Constraint) bool {
			return c != nil && (c.Operand == api.ConstraintDistinctProperty || c.Operand == api.ConstraintDistinctHosts)
		})
	}
	return any(j.Constraints) || slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
		return any(g.Constraints) || slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return any(t.Constraints) })
	})
}

// nodeBetter reports whether anything changed that placement looks at.
func nodeBetter(a, b *api.Node) bool {
	return !feasible.Available(a) || a.ComputedClass != b.ComputedClass || a.NodePool != b.NodePool ||
		a.Datacenter != b.Datacenter || a.Name != b.Name || a.BootID != b.BootID || a.NodeMaxAllocs != b.NodeMaxAllocs ||
		!reflect.DeepEqual(a.NodeResources, b.NodeResources) || !reflect.DeepEqual(a.ReservedResources, b.ReservedResources) ||
		!reflect.DeepEqual(a.Attributes, b.Attributes) || !reflect.DeepEqual(a.Meta, b.Meta) ||
		!reflect.DeepEqual(a.HostVolumes, b.HostVolumes) || !reflect.DeepEqual(a.HostNetworks, b.HostNetworks) ||
		driversChanged(a.Drivers, b.Drivers) ||
		roomier(a.CSILimits, b.CSILimits) || len(b.StaleMounts) < len(a.StaleMounts) ||
		pluginsChanged(a.CSINodePlugins, b.CSINodePlugins) || pluginsChanged(a.CSIControllerPlugins, b.CSIControllerPlugins)
}

// staleGone returns the mounts of abandoned claims that no longer keep their volumes from the node's machine. Other nodes
// may run on that machine by now.
func staleGone(before, after *api.Node) (gone []*api.StaleMount) {
	if before == nil {
		return nil
	}
	for _, m := range before.StaleMounts {
		same := func(n *api.StaleMount) bool {
			return n.Namespace == m.Namespace && n.VolumeID == m.VolumeID && n.AllocID == m.AllocID && n.Use == m.Use
		}
		if after == nil || before.BootID != after.BootID || !slices.ContainsFunc(after.StaleMounts, same) ||
			claim.ProviderNode(before, m.PluginID) != claim.ProviderNode(after, m.PluginID) {
			gone = append(gone, m)
		}
	}
	return gone
}

// roomier reports whether a learned limit of volumes was removed or raised.
func roomier(before, after map[string]*api.CSILimit) bool {
	for plugin, old := range before {
		if now := after[plugin]; now == nil || now.Volumes > old.Volumes {
			return true
		}
	}
	return false
}

func driversChanged(a, b map[string]*api.DriverInfo) bool {
	for name, now := range b {
		old := a[name]
		if old == nil || old.Detected != now.Detected || old.Healthy != now.Healthy {
			return true
		}
	}
	return false
}

func pluginsChanged(a, b map[string]*api.CSIInfo) bool {
	for id, now := range b {
		old := a[id]
		if old == nil || old.Healthy != now.Healthy || !reflect.DeepEqual(old.NodeInfo, now.NodeInfo) ||
			!reflect.DeepEqual(old.ControllerInfo, now.ControllerInfo) {
			return true
		}
	}
	return false
}

// allocChanged frees the place of an allocation when the allocation has ended on its node or was deleted. When its
// priority fell, others may preempt it. Under the rules of its own job the place is free once the job stops it.
func (l *leader) allocChanged(before, after *api.Allocation, index uint64, freed map[string]bool) {
	if before == nil {
		return
	}
	if !before.ClientTerminal() && (after == nil || after.ClientTerminal() || cheaper(before, after)) {
		freed[before.NodeID] = true
	}
	if !before.Terminal() && (after == nil || after.Terminal()) {
		l.jobFreed(l.State.Read(), before, index)
	}
	if before.ClientTerminal() || after != nil && !after.ClientTerminal() && quota.PoolOf(after.Job) == quota.PoolOf(before.Job) {
		return
	}
	if n := l.State.Read().Namespace(before.Namespace); n != nil && n.Quota != "" {
		l.needMet(broker.QuotaResource(n.Quota), index)
	}
}

// quotaChanged wakes the evaluations of the quota that the namespace leaves: they may be of the namespace itself.
func (l *leader) quotaChanged(before, after *api.Namespace, index uint64) {
	if before != nil && before.Quota != "" && (after == nil || after.Quota != before.Quota) {
		l.needMet(broker.QuotaResource(before.Quota), index)
	}
}

func cheaper(before, after *api.Allocation) bool {
	return before.Job != nil && after.Job != nil && after.Job.Priority < before.Job.Priority
}

// nodesFreed wakes evaluations for which the capacity of the nodes may be enough.
func (l *leader) nodesFreed(freed map[string]bool, index uint64) {
	tx := l.State.Read()
	for id := range freed {
		if n := tx.Node(id); n != nil {
			l.wake(l.blocked.NodeFreed(id, n.ComputedClass, index))
		}
	}
}

// pluginsMoved returns the controller plugins that the node's update added, removed or changed, whether or not the node
// accepts placements. With a changed node status it returns all of them.
func pluginsMoved(before, after *api.Node) []string {
	if before == nil {
		return nil
	}
	var ids []string
	for id := range before.CSIControllerPlugins {
		if after.CSIControllerPlugins[id] == nil {
			ids = append(ids, id)
		}
	}
	for id, now := range after.CSIControllerPlugins {
		old := before.CSIControllerPlugins[id]
		if old == nil || old.Healthy != now.Healthy || before.Status != after.Status || !reflect.DeepEqual(old.ControllerInfo, now.ControllerInfo) {
			ids = append(ids, id)
		}
	}
	return ids
}

// volumeChanged: a volume that is better, or that no longer keeps others from the external volume that it names.
func (l *leader) volumeChanged(before, after *api.Volume, index uint64) {
	if after != nil && volumeBetter(before, after) {
		l.needMet(feasible.VolumeResource(after.Namespace, after.ID), index)
	}
	if before != nil && (after == nil || before.Provision.State != after.Provision.State ||
		!reflect.DeepEqual(before.RequestedCapabilities, after.RequestedCapabilities)) { // they decide whether other specs need a fence
		l.externalFreed(before.PluginID, before.RemoteID(), index)
	}
	if before == nil || before.Provision.Replaces == nil {
		return
	}
	if r := before.Provision.Replaces; after == nil || !claim.Undoes(after, r.PluginID, r.ExternalID) {
		l.externalFreed(r.PluginID, r.ExternalID, index)
	}
}

// volumeBetter reports whether a field changed that placement reads, which includes most fields that users set.
func volumeBetter(a, b *api.Volume) bool {
	return a == nil || a.Provision.State != b.Provision.State || !reflect.DeepEqual(a.VolumeSpec, b.VolumeSpec) ||
		!reflect.DeepEqual(a.Provision.Topologies, b.Provision.Topologies)
}
