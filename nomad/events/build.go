package events

import (
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// event is an event before it is encoded.
type event struct {
	Topic, Type, Key string
	FilterKeys       []string
	Namespace        string
	Index            uint64
	Payload          any
}

// builder collects the events of one command.
type builder struct {
	*batch
	out  []*event
	seen map[string]bool
}

// build returns the events of a command in the order of its changes. What follows from several rows comes last.
func build(b *batch) []*event {
	w := &builder{batch: b, seen: map[string]bool{}}
	for _, c := range b.changes {
		w.change(c)
	}
	if b.tx != nil {
		for _, c := range b.changes {
			w.derived(c)
		}
	}
	return w.out
}

func (w *builder) add(topic, kind, key, namespace string, payload map[string]any, filterKeys ...string) {
	keys := slices.DeleteFunc(filterKeys, func(k string) bool { return k == "" })
	if keys == nil {
		keys = []string{}
	}
	w.out = append(w.out, &event{topic, kind, key, keys, namespace, w.index, payload})
}

// row returns the newest row of a change and whether it was deleted.
func row[T any](c state.Change) (r *T, deleted bool) {
	if r, _ = c.After.(*T); r != nil {
		return r, false
	}
	r, _ = c.Before.(*T)
	return r, true
}

// relevant reports whether changes of a table cause events.
func relevant(table string) bool { return makers[table] != nil }

// makers build the events of the rows of a table.
var makers = map[string]func(*builder, state.Change){
	state.TableJobs: func(w *builder, c state.Change) {
		j, deleted := row[api.Job](c)
		payload := map[string]any{"Job": view.Job(j)}
		if deleted {
			payload["Deleted"] = true
		}
		w.command(api.TopicJob, j.ID, j.Namespace, payload)
	},
	state.TableEvals: func(w *builder, c state.Change) {
		if e, deleted := row[api.Evaluation](c); !deleted {
			w.command(api.TopicEvaluation, e.ID, e.Namespace, map[string]any{"Evaluation": e}, e.JobID, e.DeploymentID)
		}
	},
	state.TableAllocs: func(w *builder, c state.Change) {
		if a, deleted := row[api.Allocation](c); !deleted {
			shown := view.Alloc(a)
			shown.Job = nil
			w.command(api.TopicAllocation, a.ID, a.Namespace, map[string]any{"Allocation": shown}, a.JobID, a.DeploymentID)
		}
	},
	state.TableDeployments: func(w *builder, c state.Change) {
		if d, deleted := row[api.Deployment](c); !deleted {
			w.command(api.TopicDeployment, d.ID, d.Namespace, map[string]any{"Deployment": d}, d.JobID)
		}
	},
	state.TableNodes: func(w *builder, c state.Change) {
		if n, _ := row[api.Node](c); w.kind != batchDeregistered {
			w.command(api.TopicNode, n.ID, "", map[string]any{"Node": view.Node(n)})
		}
	},
	state.TableNodePools: func(w *builder, c state.Change) {
		p, deleted := row[api.NodePool](c)
		w.add(api.TopicNodePool, either(deleted, "NodePoolDeleted", "NodePoolUpserted"), p.Name, "", map[string]any{"NodePool": view.Pool(p)})
	},
	state.TableServices: func(w *builder, c state.Change) {
		s, deleted := row[api.ServiceRegistration](c)
		w.add(api.TopicService, either(deleted, "ServiceDeregistration", "ServiceRegistration"), s.ID, s.Namespace,
			map[string]any{"Service": s}, s.JobID, s.ServiceName)
	},
	state.TableVolumes: func(w *builder, c state.Change) {
		v, deleted := row[api.Volume](c)
		w.volume(v, either(deleted, "CSIVolumeDeregistered", "CSIVolumeRegistered"))
	},
	state.TableHostVolumes: func(w *builder, c state.Change) {
		v, deleted := row[api.HostVolume](c)
		shown := *v
		if w.tx != nil {
			shown = *hostview.Of(w.tx, v)
		}
		w.add(api.TopicHostVolume, either(deleted, "HostVolumeDeleted", "HostVolumeRegistered"), v.ID, v.Namespace, map[string]any{"Volume": &shown}, v.ID, v.Name, v.PluginID)
	},
	state.TableClaims:      claimEvent,
	state.TableAttachments: attachmentEvent,
	state.TableVariables: func(w *builder, c state.Change) {
		v, deleted := row[api.VariableRow](c)
		meta := v.VariableMeta
		w.add(api.TopicVariable, "VariableUpdated", v.Path, v.Namespace, map[string]any{"Metadata": mask.Redacted(&meta), "Deleted": deleted})
	},
	state.TableACLTokens: func(w *builder, c state.Change) {
		t, deleted := row[api.ACLToken](c)
		w.add(api.TopicACLToken, either(deleted, "ACLTokenDeleted", "ACLTokenUpserted"), t.AccessorID, "", map[string]any{"ACLToken": mask.Redacted(t)})
	},
	state.TableACLPolicies: func(w *builder, c state.Change) {
		p, deleted := row[api.ACLPolicy](c)
		w.add(api.TopicACLPolicy, either(deleted, "ACLPolicyDeleted", "ACLPolicyUpserted"), p.Name, "", map[string]any{"ACLPolicy": p})
	},
	state.TableACLRoles: func(w *builder, c state.Change) {
		r, deleted := row[api.ACLRole](c)
		w.add(api.TopicACLRole, either(deleted, "ACLRoleDeleted", "ACLRoleUpserted"), r.ID, "", map[string]any{"ACLRole": r}, r.Name)
	},
	state.TableACLAuthMethods: func(w *builder, c state.Change) {
		m, deleted := row[api.ACLAuthMethod](c)
		w.add(api.TopicACLAuthMethod, either(deleted, "ACLAuthMethodDeleted", "ACLAuthMethodUpserted"), m.Name, "",
			map[string]any{"AuthMethod": mask.Redacted(m)})
	},
	state.TableACLBindingRules: func(w *builder, c state.Change) {
		r, deleted := row[api.ACLBindingRule](c)
		w.add(api.TopicACLBindingRule, either(deleted, "ACLBindingRuleDeleted", "ACLBindingRuleUpserted"), r.ID, "",
			map[string]any{"ACLBindingRule": r}, r.AuthMethod)
	},
}

func either(deleted bool, yes, no string) string {
	if deleted {
		return yes
	}
	return no
}

func (w *builder) change(c state.Change) {
	if m := makers[c.Table]; m != nil {
		m(w, c)
	}
}

// command adds an event whose type is that of the command. Commands without a type cause none.
func (w *builder) command(topic, key, namespace string, payload map[string]any, filterKeys ...string) {
	if w.kind != "" && (w.kind != batchDeregistered || topic == api.TopicJob) {
		w.add(topic, w.kind, key, namespace, payload, filterKeys...)
	}
}

// needsState reports whether the events of a change follow from other rows as well.
func needsState(c state.Change) bool {
	switch c.Table {
	case state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableHostVolumes:
		return true
	case state.TableNodes:
		n, _ := row[api.Node](c)
		before, _ := c.Before.(*api.Node)
		return hasPlugins(n) || hasPlugins(before)
	case state.TableJobs:
		j, _ := row[api.Job](c)
		before, _ := c.Before.(*api.Job)
		return len(pluginsOf(j)) > 0 || len(pluginsOf(before)) > 0
	}
	return false
}

func hasPlugins(n *api.Node) bool {
	return n != nil && len(n.CSIControllerPlugins)+len(n.CSINodePlugins) > 0
}

// derived adds the events on plugins that a change of a node or a job causes, and those on volumes whose claims changed. Each
// object has one per command.
func (w *builder) derived(c state.Change) {
	switch c.Table {
	case state.TableNodes:
		before, _ := c.Before.(*api.Node)
		after, _ := c.After.(*api.Node)
		for _, id := range changedPlugins(before, after) {
			w.plugin(id)
		}
	case state.TableJobs:
		before, _ := c.Before.(*api.Job)
		after, _ := c.After.(*api.Job)
		if before != nil && after != nil && before.JobModifyIndex == after.JobModifyIndex {
			return // only its status changed
		}
		for _, id := range slices.Concat(pluginsOf(before), pluginsOf(after)) {
			w.plugin(id)
		}
	case state.TableClaims:
		claim, _ := row[api.VolumeClaim](c)
		if v := w.tx.Volume(claim.Namespace, claim.VolumeID); v != nil {
			w.volume(v, "CSIVolumeClaim")
		}
	}
}

func (w *builder) plugin(id string) {
	if w.kind == "" || w.kind == batchDeregistered || w.seen["plugin "+id] {
		return
	}
	w.seen["plugin "+id] = true
	p := pluginview.Of(w.tx, id)
	if p == nil { // no node and no job has it any longer
		p = &api.Plugin{ID: id, ModifyIndex: w.index}
	}
	w.add(api.TopicCSIPlugin, w.kind, id, "", map[string]any{"Plugin": p}, id)
}

// changedPlugins returns the plugins whose instance on a node changed.
func changedPlugins(before, after *api.Node) []string {
	empty := &api.Node{}
	if before == nil {
		before = empty
	}
	if after == nil {
		after = empty
	}
	var ids []string
	for _, m := range []map[string]*api.CSIInfo{before.CSIControllerPlugins, before.CSINodePlugins, after.CSIControllerPlugins, after.CSINodePlugins} {
		for id := range m {
			same := before.Status == after.Status && reflect.DeepEqual(before.CSIControllerPlugins[id], after.CSIControllerPlugins[id]) &&
				reflect.DeepEqual(before.CSINodePlugins[id], after.CSINodePlugins[id])
			if !same && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func pluginsOf(j *api.Job) []string {
	if j == nil {
		return nil
	}
	var ids []string
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.CSIPluginConfig != nil {
				ids = append(ids, t.CSIPluginConfig.ID)
			}
		}
	}
	return ids
}
