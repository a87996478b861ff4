package gauges

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// StuckAfter is for how long a claim or an attachment of a volume may be on its way before the volume counts as stuck.
const StuckAfter = 5 * time.Minute

// tally counts rows of a plugin in a state, and has the age of the oldest.
type tally struct {
	n      int
	oldest time.Duration
}

type place struct{ plugin, state string }

// Volumes reports volumes, claims and attachments by plugin and state with the age of the oldest, and the volumes that are
// stuck: a claim or an attachment of theirs is on its way since [StuckAfter]. Claims that wait for another allocation are
// none of these.
func Volumes(tx *state.Txn, now time.Time, emit metrics.Emit) {
	volumes := map[place]tally{}
	type volume struct{ plugin, external string }
	stuck, of := map[volume]bool{}, map[string]bool{}
	add := func(to map[place]tally, plugin, state string, since int64) time.Duration {
		t := to[place{plugin, state}]
		age := time.Duration(0)
		if since > 0 {
			age = max(0, now.Sub(time.Unix(0, since)))
		}
		to[place{plugin, state}] = tally{t.n + 1, max(t.oldest, age)}
		of[plugin] = true
		return age
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		add(volumes, v.PluginID, string(v.Provision.State), v.ModifyTime)
	}
	claims := map[place]tally{}
	for c := range tx.Claims() {
		age := add(claims, c.PluginID, string(c.State), c.Since)
		if c.State != api.ClaimReady && c.State != api.ClaimWaiting && age > StuckAfter {
			stuck[volume{c.PluginID, c.ExternalID}] = true
		}
	}
	attachments := map[place]tally{}
	for a := range tx.Attachments() {
		age := add(attachments, a.PluginID, string(a.State), a.Since)
		if a.State != api.AttachmentPublished && age > StuckAfter {
			stuck[volume{a.PluginID, a.ExternalID}] = true
		}
	}
	for a := range tx.WrittenOff() {
		add(attachments, a.PluginID, string(a.State), a.Since)
	}
	report := func(name string, all map[place]tally) {
		for p, t := range all {
			emit(name, float64(t.n), label("plugin", p.plugin), label("state", p.state))
			emit(name+"_oldest_seconds", t.oldest.Seconds(), label("plugin", p.plugin), label("state", p.state))
		}
	}
	report("nomad.volumes.volumes", volumes)
	report("nomad.volumes.claims", claims)
	report("nomad.volumes.attachments", attachments)
	count := map[string]int{}
	for v := range stuck {
		count[v.plugin]++
	}
	for plugin := range of {
		emit("nomad.volumes.stuck", float64(count[plugin]), label("plugin", plugin))
	}
}

// Plugins reports how many instances of each CSI plugin nodes have, and how many of them are healthy.
func Plugins(tx *state.Txn, emit metrics.Emit) {
	type health struct{ known, healthy int }
	nodes, controllers := map[string]health{}, map[string]health{}
	add := func(to map[string]health, infos map[string]*api.CSIInfo) {
		for id, info := range infos {
			h := to[id]
			h.known++
			if info.Healthy {
				h.healthy++
			}
			to[id] = h
		}
	}
	for n := range tx.Nodes() {
		if n.Status == api.NodeStatusReady {
			add(nodes, n.CSINodePlugins)
			add(controllers, n.CSIControllerPlugins)
		}
	}
	for kind, all := range map[string]map[string]health{"node": nodes, "controller": controllers} {
		for id, h := range all {
			emit("nomad.volumes.plugin_instances", float64(h.known), label("plugin", id), label("type", kind))
			emit("nomad.volumes.plugin_instances_healthy", float64(h.healthy), label("plugin", id), label("type", kind))
		}
	}
}

// Nodes reports nodes by status and eligibility.
func Nodes(tx *state.Txn, emit metrics.Emit) {
	type kind struct{ status, eligibility string }
	count := map[kind]int{}
	for n := range tx.Nodes() {
		count[kind{n.Status, n.SchedulingEligibility}]++
	}
	for k, n := range count {
		emit("nomad.nodes", float64(n), label("status", k.status), label("eligibility", k.eligibility))
	}
}
