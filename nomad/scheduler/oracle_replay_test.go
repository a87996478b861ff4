package scheduler_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// setTable is what there is before a plan.
func setTable(tx *state.Txn) *table {
	t := &table{
		nodes: map[string]*api.Node{}, volumes: map[string]*api.Volume{}, gone: map[string]bool{},
		spread: tx.SchedulerConfig().SchedulerAlgorithm == api.SchedulerAlgorithmSpread,
	}
	for n := range tx.Nodes() {
		t.nodes[n.ID] = n
	}
	if q := tx.Quota("team"); q != nil {
		t.quota = q.Limits[0].RegionLimit
	}
	for a := range tx.Allocs("*") {
		if !a.ClientTerminal() {
			t.allocs = append(t.allocs, a)
		}
	}
	for v := range tx.Volumes("*") {
		t.volumes[v.ID] = v
	}
	for c := range tx.Claims() {
		t.claims = append(t.claims, oracleClaim{c.VolumeID, c.NodeID, c.AllocID})
	}
	return t
}

func (t *table) remove(id string) {
	t.gone[id] = true
	t.allocs = slices.DeleteFunc(slices.Clone(t.allocs), func(a *api.Allocation) bool { return a.ID == id })
}

// volumeOf is the CSI volume that the allocation of that name needs.
func (k oracleAsk) volumeOf(name string) string {
	if k.volume == volumePerName {
		return volumePerName + name[strings.IndexByte(name, '['):]
	}
	return k.volume
}

// volumeRefusal says why the allocation cannot have its CSI volume on the node.
func (k oracleAsk) volumeRefusal(t *table, n *api.Node, name string) string {
	if k.volume == "" {
		return ""
	}
	id, p := k.volumeOf(name), n.CSINodePlugins["p"]
	v := t.volumes[id]
	switch {
	case v == nil:
		return "no such volume"
	case p == nil || !p.Healthy:
		return "no healthy plugin"
	case len(v.Provision.Topologies) > 0 && v.Provision.Topologies[0].Segments["zone"] != n.Meta["zone"]:
		return "out of reach"
	}
	var here []string
	for _, c := range t.claims {
		if c.node == n.ID && !slices.Contains(here, c.volume) {
			here = append(here, c.volume)
		}
		if k.volume != sharedVolume && c.volume == id && !t.gone[c.alloc] && (k.volume == singleVolume || c.node != n.ID) {
			return "volume in use"
		}
	}
	if limit := int(p.NodeInfo.MaxVolumes); limit > 0 && len(here) >= limit && !slices.Contains(here, id) {
		return "too many volumes"
	}
	return ""
}

// replay follows the placements of one plan.
type replay struct {
	*rapid.T
	ask    oracleAsk
	count  int
	before *state.Txn
	*table
	roster *fleet.Edit
	paired bool // some predecessor freed capacity in the middle of the plan
}

// follow checks the plan of the job from what was there before.
func (k oracleAsk) follow(t *rapid.T, before, after *state.Txn, o *scheduler.Output, count int) {
	r := &replay{T: t, ask: k, count: count, before: before, table: setTable(before)}
	r.roster = fleet.Build(before.Index(), before.Nodes(), before.Allocs("*")).Edit()
	list := placed(o)
	slices.SortFunc(list, func(a, b *api.Allocation) int { return cmp.Compare(a.ID, b.ID) })
	for _, s := range stopped(o) {
		if !slices.ContainsFunc(list, func(a *api.Allocation) bool { return a.PreviousAllocation == s.ID && r.waits(before.Alloc(s.ID)) }) {
			r.stop(s.ID)
		}
	}
	for _, a := range list {
		r.place(after.Alloc(a.ID), after)
	}
	r.rest(after, o)
}

// waits reports whether an allocation stays until its successor has a place.
func (r *replay) waits(a *api.Allocation) bool {
	return r.nodes[a.NodeID].Status == api.NodeStatusReady && !a.DesiredTransition.Migrate
}

func (r *replay) stop(id string) {
	r.remove(id)
	if i := r.roster.Find(r.before.Alloc(id).NodeID); i >= 0 {
		r.roster.Remove(i, id)
	}
}

// avoided are the nodes on which the predecessors failed.
func (r *replay) avoided(prev *api.Allocation) map[string]bool {
	nodes := map[string]bool{}
	for prev != nil && prev.ClientStatus == api.AllocClientStatusFailed {
		nodes[prev.NodeID] = true
		prev = r.before.Alloc(prev.PreviousAllocation)
	}
	return nodes
}

func (r *replay) refusal(n *api.Node, name string) string {
	return cmp.Or(r.ask.quotaRefusal(r.table), r.ask.refusal(r.look(n)), r.ask.volumeRefusal(r.table, n, name))
}

// place checks one placement and adds it.
func (r *replay) place(a *api.Allocation, after *state.Txn) {
	prev := r.before.Alloc(a.PreviousAllocation)
	if prev != nil && r.waits(prev) {
		r.paired = r.paired || !prev.ClientTerminal()
		r.stop(prev.ID)
	}
	n := r.nodes[a.NodeID]
	if why := r.refusal(n, a.Name); why != "" {
		r.Fatalf("%s was placed on %s against the rules: %s", a.Name, a.NodeID, why)
	}
	if why := r.ask.wrong(r.look(n), a); why != "" {
		r.Fatalf("%s got on %s: %s", a.Name, a.NodeID, why)
	}
	if prev != nil && r.ask.sticky && prev.ClientStatus != api.AllocClientStatusFailed && r.refusal(r.nodes[prev.NodeID], a.Name) == "" {
		if a.NodeID != prev.NodeID {
			r.Fatalf("%s left its data on %s for %s", a.Name, prev.NodeID, a.NodeID)
		}
		r.scored(a, r.ask.fit(r.table, r.look(n)))
	} else {
		r.best(a, r.avoided(prev))
	}
	i, load := r.roster.Find(a.NodeID), fleet.LoadOfAlloc(a)
	if why := r.roster.Row(i).Refuses(load, func(fleet.HostPort) bool { return false }); why != "" {
		r.Fatalf("the verifier refuses %s on %s: %s", a.Name, a.NodeID, why)
	}
	r.roster.Add(i, a.ID, load)
	r.allocs = append(r.allocs, after.Alloc(a.ID))
	if r.ask.volume != "" {
		r.claims = append(r.claims, oracleClaim{r.ask.volumeOf(a.Name), a.NodeID, a.ID})
	}
}

// best checks that no other node was better.
func (r *replay) best(a *api.Allocation, avoided map[string]bool) {
	best, on := math.Inf(-1), ""
	for _, n := range r.nodes {
		if r.refusal(n, a.Name) == "" {
			if score, _ := r.ask.score(r.table, r.look(n), r.count, avoided); score > best {
				best, on = score, n.ID
			}
		}
	}
	got, parts := r.ask.score(r.table, r.look(r.nodes[a.NodeID]), r.count, avoided)
	if got < best-1e-9 {
		r.Fatalf("%s is on %s for %v %v, and %s had %v", a.Name, a.NodeID, got, parts, on, best)
	}
	r.scored(a, got)
	for part, shown := range a.Metrics.ScoreMetaData[0].Scores {
		if math.Abs(shown-parts[part]) > 1e-9 {
			r.Fatalf("%s shows %s of %v, want %v", a.Name, part, shown, parts)
		}
		delete(parts, part)
	}
	if len(parts) > 0 {
		r.Fatalf("%s does not show %v", a.Name, parts)
	}
	for _, other := range a.Metrics.ScoreMetaData[1:] {
		sum, n := 0.0, 0.0
		for name, part := range other.Scores {
			if part != 0 || name != spreadPart {
				sum, n = sum+part, n+1
			}
		}
		if math.Abs(sum/n-other.NormScore) > 1e-9 {
			r.Fatalf("%s shows of %s %v, which is not the mean of %v", a.Name, other.NodeID, other.NormScore, other.Scores)
		}
	}
}

// scored checks the score that users are shown.
func (r *replay) scored(a *api.Allocation, want float64) {
	if shown := a.Metrics.ScoreMetaData[0]; shown.NodeID != a.NodeID || math.Abs(shown.NormScore-want) > 1e-9 {
		r.Fatalf("%s shows %+v, want %s with %v", a.Name, shown, a.NodeID, want)
	}
}

// rest checks what the plan left undone.
func (r *replay) rest(after *state.Txn, o *scheduler.Output) {
	done := map[string]bool{}
	for a := range after.AllocsByJob("default", "asked") {
		if !a.Terminal() && a.Job.TaskGroups[0].Tasks[0].Env["work"] == fmt.Sprint(r.ask.work) {
			done[a.Name] = true
		}
	}
	var missing []string
	for i := 0; len(missing)+len(done) < r.count; i++ {
		if name := fmt.Sprintf("asked.g[%d]", i); !done[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) != o.Queued["g"] || (len(missing) > 0) != (o.Failed["g"] != nil) {
		r.Fatalf("%v missing, %d queued, metric %v", missing, o.Queued["g"], o.Failed["g"])
	}
	if len(missing) == 0 {
		return
	}
	for _, n := range r.nodes {
		for _, name := range missing {
			if !r.paired && r.undone(n, name) {
				r.Fatalf("node %s could take %s, which was not placed: %+v", n.ID, name, o.Failed["g"])
			}
		}
	}
	m := o.Failed["g"]
	if (len(m.QuotaExhausted) > 0) != (o.QuotaReached != "") {
		r.Fatalf("quota %q is reached, and the metric shows %v", o.QuotaReached, m.QuotaExhausted)
	}
	if len(m.QuotaExhausted) == 0 && m.NodesFiltered+m.NodesExhausted != m.NodesEvaluated || m.CoalescedFailures != len(missing)-1 {
		r.Fatalf("metric does not add up: %+v", m)
	}
}

// undone reports whether the allocation that was not placed could go to the node, if its predecessor left.
func (r *replay) undone(n *api.Node, name string) bool {
	then := *r
	copied := *r.table
	then.table = &copied
	copied.gone = map[string]bool{}
	for id := range r.gone {
		copied.gone[id] = true
	}
	for _, a := range r.allocs {
		if a.Name == name && a.JobID == "asked" && a.DesiredStatus == api.AllocDesiredStatusRun {
			then.remove(a.ID)
		}
	}
	return then.refusal(n, name) == ""
}

func TestPlansAreLegalBestAndComplete(t *testing.T) {
	for i := range soaktest.Rounds(1, 6) { // a hundred worlds each
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { oneWorld(t, rt) }) })
	}
}

func oneWorld(t *testing.T, rt *rapid.T) {
	c := newCluster(t)
	if rapid.IntRange(0, 3).Draw(rt, "spread out") == 0 {
		c.write(func(tx *state.Txn) {
			tx.PutSchedulerConfig(&api.SchedulerConfiguration{SchedulerAlgorithm: api.SchedulerAlgorithmSpread})
		})
	}
	drawCluster(rt, c)
	drawVolumes(rt, c)
	drawQuota(rt, c)
	filler := drawAsk(rt)
	filler.hosts, filler.perRack, filler.rack = false, 0, ""
	f := filler.job("filler", rapid.IntRange(0, 4).Draw(rt, "fillers"))
	c.register(f)
	c.run(f)
	ask := drawAsk(rt)
	drawWishes(rt, &ask)
	count := rapid.IntRange(1, 6).Draw(rt, "count")
	for range rapid.IntRange(1, 4).Draw(rt, "plans") {
		j := ask.job("asked", count)
		c.register(j)
		before := c.store.Read()
		o := c.run(j)
		ask.follow(rt, before, c.store.Read(), o, count)
		c.settle(rt, o, ask)
		count = c.happen(rt, &ask, count)
	}
}

// settle has clients do what the plan says, some of them late.
func (c *cluster) settle(t *rapid.T, o *scheduler.Output, k oracleAsk) {
	if k.volume != "" {
		for _, a := range placed(o) {
			c.claimFor(a, k)
		}
	}
	c.setRunning("asked")
	late := k.volume == "" && rapid.Bool().Draw(t, "late")
	c.write(func(tx *state.Txn) {
		for a := range c.store.Read().AllocsByJob("default", "asked") {
			if a.DesiredStatus == api.AllocDesiredStatusRun || a.ClientTerminal() || late {
				continue
			}
			over := *a
			over.ClientStatus = api.AllocClientStatusComplete
			tx.PutAlloc(&over)
		}
	})
	c.release()
}

func (c *cluster) claimFor(a *api.Allocation, k oracleAsk) {
	v := c.store.Read().Volume("default", k.volumeOf(a.Name))
	c.write(func(tx *state.Txn) {
		tx.PutClaim(&api.VolumeClaim{
			Namespace: "default", VolumeID: v.ID, AllocID: a.ID, NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
			PluginID: "p", ExternalID: v.RemoteID(), Mode: api.ClaimWrite, State: api.ClaimReady,
			AccessMode: v.RequestedCapabilities[0].AccessMode, AttachmentMode: api.AttachmentFileSystem,
		})
	})
}

// release frees what is claimed for allocations that ended.
func (c *cluster) release() {
	c.write(func(tx *state.Txn) {
		for claim := range c.store.Read().Claims() {
			if a := tx.Alloc(claim.AllocID); a == nil || a.ClientTerminal() {
				tx.DeleteClaim(claim.Namespace, claim.VolumeID, claim.AllocID, claim.Use)
			}
		}
	})
}

// happen changes the job or the world, and answers how many allocations are wanted from now on.
func (c *cluster) happen(t *rapid.T, k *oracleAsk, count int) int {
	c.now = c.now.Add(time.Hour)
	some := func(change func(*api.Allocation)) {
		c.each("asked", func(a *api.Allocation) {
			if rapid.Bool().Draw(t, "this one") {
				change(a)
			}
		})
		c.release()
	}
	switch rapid.SampledFrom([]string{"scale", "scale", "fail", "fail", "update", "move", "down"}).Draw(t, "happens") {
	case "scale":
		return rapid.IntRange(1, 8).Draw(t, "count")
	case "fail":
		some(func(a *api.Allocation) {
			a.ClientStatus = api.AllocClientStatusFailed
			a.TaskStates = map[string]*api.TaskState{"t": {State: api.TaskStateDead, Failed: true, FinishedAt: c.now}}
		})
		c.now = c.now.Add(time.Hour)
	case "update":
		k.work++
	case "move":
		some(func(a *api.Allocation) { a.DesiredTransition.Migrate = true })
	case "down":
		c.write(func(tx *state.Txn) {
			for n := range c.store.Read().Nodes() {
				next := *n
				next.Status = rapid.SampledFrom([]string{"ready", "ready", "down"}).Draw(t, "status")
				tx.PutNode(&next)
			}
		})
	}
	return count
}
