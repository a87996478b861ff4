package evals

import (
	"context"
	"reflect"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// changed draws the consequences of one changed row; nodes with more room are gathered in freed.
func (l *leader) changed(ctx context.Context, c state.Change, index uint64, freed map[string]bool) {
	switch c.Table {
	case state.TableEvals:
		before, _ := c.Before.(*api.Evaluation)
		after, _ := c.After.(*api.Evaluation)
		l.evalChanged(ctx, before, after)
	case state.TableNodes:
		before, _ := c.Before.(*api.Node)
		after, _ := c.After.(*api.Node)
		l.nodeChanged(before, after, index, freed)
	case state.TableAllocs:
		before, _ := c.Before.(*api.Allocation)
		after, _ := c.After.(*api.Allocation)
		allocChanged(before, after, freed)
	case state.TableVolumes:
		before, _ := c.Before.(*api.Volume)
		if after, ok := c.After.(*api.Volume); ok && after != nil && volumeBetter(before, after) {
			l.needMet(feasible.VolumeResource(after.Namespace, after.ID), index)
		}
	case state.TableClaims:
		if gone, ok := c.Before.(*api.VolumeClaim); ok && gone != nil && c.After == nil {
			l.externalFreed(gone.PluginID, gone.ExternalID, index)
		}
	case state.TableAttachments:
		if gone, ok := c.Before.(*api.VolumeAttachment); ok && gone != nil && c.After == nil {
			l.externalFreed(gone.PluginID, gone.ExternalID, index)
		}
	case state.TableConfig:
		if c, ok := c.After.(*api.SchedulerConfiguration); ok && c != nil {
			l.configured(ctx, c)
		}
	}
}

// externalFreed wakes those who wait for an external volume, by whatever volume that names it, or for a
// place of the plugin.
func (l *leader) externalFreed(plugin, external string, index uint64) {
	for v := range l.State.Read().VolumesByPlugin(plugin) {
		if v.RemoteID() == external {
			l.needMet(feasible.VolumeResource(v.Namespace, v.ID), index)
		}
	}
	l.needMet(feasible.PluginResource(plugin), index)
}

func (l *leader) wake(evals []*api.Evaluation) {
	for _, e := range evals {
		l.broker.Enqueue(e)
	}
}

func (l *leader) needMet(resource string, index uint64) { l.wake(l.blocked.NeedMet(resource, index)) }

func (l *leader) evalChanged(ctx context.Context, before, after *api.Evaluation) {
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
		l.asks[after.ID] = l.leastAsk(after)
		missed, duplicate := l.blocked.Block(after)
		if duplicate != nil {
			l.cancel(ctx, []*api.Evaluation{duplicate}, "canceled by a newer blocked evaluation of the job")
		}
		if missed {
			l.wake([]*api.Evaluation{after})
		}
	default:
		l.forget(after.ID)
		l.supersede(ctx, after)
	}
}

func (l *leader) forget(id string) {
	l.broker.Forget(id)
	l.blocked.Forget(id)
	delete(l.asks, id)
}

// leastAsk is what the smallest group needs that the evaluation could not place.
func (l *leader) leastAsk(e *api.Evaluation) fleet.Amount {
	tx := l.State.Read()
	failed := e.FailedTGAllocs
	if before := tx.Eval(e.PreviousEval); len(failed) == 0 && before != nil {
		failed = before.FailedTGAllocs
	}
	j := tx.Job(e.Namespace, e.JobID)
	if j == nil {
		return fleet.Amount{}
	}
	var least *fleet.Amount
	for _, g := range j.TaskGroups {
		if len(failed) > 0 && failed[g.Name] == nil {
			continue
		}
		ask := fleet.AskOf(g)
		if least != nil {
			ask.CPU, ask.MemoryMB, ask.DiskMB = min(least.CPU, ask.CPU), min(least.MemoryMB, ask.MemoryMB), min(least.DiskMB, ask.DiskMB)
		}
		least = &ask
	}
	if least == nil {
		return fleet.Amount{}
	}
	return *least
}

// supersede cancels what the job still has blocked when a newer evaluation placed everything.
func (l *leader) supersede(ctx context.Context, e *api.Evaluation) {
	if e.Status != api.EvalStatusComplete || e.BlockedEval != "" || len(e.FailedTGAllocs) > 0 {
		return
	}
	l.cancel(ctx, l.blocked.Superseded(e.Namespace, e.JobID, e.CreateIndex), "canceled after a newer evaluation placed everything")
}

func (l *leader) cancel(ctx context.Context, evals []*api.Evaluation, why string) {
	if err := l.write(ctx, cancel(evals, why)); err != nil && ctx.Err() == nil {
		l.Log.Warn("superfluous evaluations were not cancelled", "evals", len(evals), "error", err)
	}
}

func (l *leader) nodeChanged(before, after *api.Node, index uint64, freed map[string]bool) {
	if after == nil || !feasible.Available(after) || before != nil && !nodeBetter(before, after) {
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

// nodeBetter reports whether anything changed that placement looks at.
func nodeBetter(a, b *api.Node) bool {
	return !feasible.Available(a) || a.ComputedClass != b.ComputedClass || a.NodePool != b.NodePool ||
		a.Datacenter != b.Datacenter || a.NodeMaxAllocs != b.NodeMaxAllocs ||
		!reflect.DeepEqual(a.NodeResources, b.NodeResources) || !reflect.DeepEqual(a.ReservedResources, b.ReservedResources) ||
		!reflect.DeepEqual(a.Attributes, b.Attributes) || !reflect.DeepEqual(a.Meta, b.Meta) ||
		!reflect.DeepEqual(a.HostVolumes, b.HostVolumes) || !reflect.DeepEqual(a.HostNetworks, b.HostNetworks) ||
		driversChanged(a.Drivers, b.Drivers) ||
		roomier(a.CSILimits, b.CSILimits) || len(b.StaleMounts) < len(a.StaleMounts) ||
		pluginsChanged(a.CSINodePlugins, b.CSINodePlugins) || pluginsChanged(a.CSIControllerPlugins, b.CSIControllerPlugins)
}

// roomier reports whether a learned limit of volumes is gone or higher.
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

// allocChanged: the place of an allocation is free when its node is done with it, or when it is forgotten.
func allocChanged(before, after *api.Allocation, freed map[string]bool) {
	if before == nil || before.ClientTerminal() || after != nil && !after.ClientTerminal() {
		return
	}
	freed[before.NodeID] = true
}

// nodesFreed wakes those whom the nodes' room may be enough for.
func (l *leader) nodesFreed(ctx context.Context, freed map[string]bool, index uint64) {
	if len(freed) == 0 {
		return
	}
	f, err := l.roster.Fleet(ctx)
	if err != nil {
		return
	}
	tx := l.State.Read()
	evicts := tx.SchedulerConfig().PreemptionConfig
	for id := range freed {
		if n := tx.Node(id); n != nil {
			l.wake(l.blocked.NodeFreed(id, n.ComputedClass, index, l.enough(f.Row(f.Find(id)), evicts)))
		}
	}
}

// enough tells for whom the free room of a node may do: surely not for those who ask for more, unless
// they may evict others.
func (l *leader) enough(row *fleet.Row, evicts api.PreemptionConfig) func(*api.Evaluation) bool {
	if row == nil {
		return nil
	}
	free := row.Total.Sub(row.Used)
	return func(e *api.Evaluation) bool { return l.asks[e.ID].Exceeds(free) == "" || mayEvict(e.Type, evicts) }
}

func mayEvict(kind string, c api.PreemptionConfig) bool {
	switch kind {
	case api.JobTypeSystem:
		return c.SystemSchedulerEnabled
	case api.JobTypeSysbatch:
		return c.SysBatchSchedulerEnabled
	case api.JobTypeBatch:
		return c.BatchSchedulerEnabled
	}
	return c.ServiceSchedulerEnabled
}

func volumeBetter(a, b *api.Volume) bool {
	return a == nil || a.Provision.State != b.Provision.State || a.PluginID != b.PluginID ||
		!reflect.DeepEqual(a.RequestedCapabilities, b.RequestedCapabilities) ||
		!reflect.DeepEqual(a.Provision.Topologies, b.Provision.Topologies)
}
