package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// plugin makes a node run a healthy node plugin with a volume limit.
func plugin(limit int64, segments map[string]string) func(*api.Node) {
	return func(n *api.Node) {
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true,
			NodeInfo: &api.CSINodeInfo{ID: n.ID, MaxVolumes: limit, AccessibleTopology: &api.Topology{Segments: segments}},
		}}
	}
}

func (c *cluster) volume(id string, mode api.AccessMode, change ...func(*api.Volume)) {
	v := &api.Volume{VolumeSpec: api.VolumeSpec{
		ID: id, Name: id, Namespace: "default", PluginID: "p",
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}},
	}, Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "ext-" + id}}
	for _, f := range change {
		f(v)
	}
	c.write(func(tx *state.Txn) { tx.PutVolume(v) })
}

func withVolume(source string, change ...func(*api.VolumeRequest)) func(*api.Job) {
	return func(j *api.Job) {
		r := &api.VolumeRequest{
			Name: source, Type: api.VolumeTypeCSI, Source: source,
			AccessMode: string(api.AccessSingleNodeWriter), AttachmentMode: string(api.AttachmentFileSystem),
		}
		for _, f := range change {
			f(r)
		}
		g := j.TaskGroups[0]
		if g.Volumes == nil {
			g.Volumes = map[string]*api.VolumeRequest{}
		}
		g.Volumes[source] = r
	}
}

// claim takes the claims of all placements of the output, as plan apply does.
func (c *cluster) claim(o *scheduler.Output, volume string) {
	c.write(func(tx *state.Txn) {
		for _, a := range placed(o) {
			tx.PutClaim(&api.VolumeClaim{
				Namespace: "default", VolumeID: volume, AllocID: a.ID, NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
				PluginID: "p", ExternalID: "ext-" + volume, Mode: api.ClaimWrite, State: api.ClaimReady,
				AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
			})
		}
	})
}

func refusedFor(o *scheduler.Output, part string) bool {
	if o.Failed["g"] == nil {
		return false
	}
	for reason := range o.Failed["g"].ConstraintFiltered {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}

// TestSystemJobsWaitForMissingVolumesToo: a volume that is not there is named and waited for by every type of job.
func TestSystemJobsWaitForMissingVolumesToo(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeSystem} {
		c := newCluster(t)
		c.node("n1", plugin(10, nil))
		j := job("j", kind, 1, withVolume("v"))
		c.register(j)
		o := c.run(j)
		if len(placed(o)) != 0 || !refusedFor(o, "missing CSI volume(s) v") || !slices.Equal(o.Missing, []string{"csi-volume:default:v"}) {
			t.Fatalf("%s: missing %v, failed %+v", kind, o.Missing, o.Failed["g"])
		}
		done := scheduler.Done(&api.Evaluation{ID: "e"}, o, 1, c.now, c.id)
		if b := done[0]; b.Status != api.EvalStatusBlocked || !slices.Equal(b.MissingNonNodeResources, o.Missing) {
			t.Fatalf("%s: blocked %+v", kind, b)
		}
		c.volume("v", api.AccessSingleNodeWriter)
		if o = c.run(j); len(placed(o)) != 1 {
			t.Fatalf("%s: placed %d", kind, len(placed(o)))
		}
	}
}

func TestPluginMustBeHealthyOnTheNode(t *testing.T) {
	c := newCluster(t)
	c.node("none")
	c.node("sick", plugin(10, nil), func(n *api.Node) { n.CSINodePlugins["p"].Healthy = false })
	c.volume("v", api.AccessSingleNodeWriter)
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	o := c.run(j)
	if !refusedFor(o, "plugin p is missing from client none") || !refusedFor(o, "plugin p is unhealthy on client sick") {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
	if !slices.Equal(o.Missing, []string{"csi-plugin:p", "csi-volume:default:v"}) {
		t.Fatalf("missing %v", o.Missing)
	}
}

func TestRefusalByTopologySaysWhereTheVolumeCanBeUsed(t *testing.T) {
	c := newCluster(t)
	c.node("n", plugin(10, nil))
	at := func(zone string) *api.Topology {
		return &api.Topology{Segments: map[string]string{"zone": zone, "rack": "r"}}
	}
	c.volume("v", api.AccessSingleNodeWriter, func(v *api.Volume) { v.Provision.Topologies = []*api.Topology{at("b"), at("c")} })
	c.volume("many", api.AccessSingleNodeWriter, func(v *api.Volume) {
		v.Provision.Topologies = []*api.Topology{at("1"), at("2"), at("3"), at("4"), at("5"), at("6"), at("7")}
	})
	for source, want := range map[string]string{
		"v": `did not meet topology requirement: CSI volume "v" can be used where rack=r,zone=b or rack=r,zone=c`, "many": "zone=5 or other places",
	} {
		j := job("j", api.JobTypeService, 1, withVolume(source))
		c.register(j)
		if o := c.run(j); !refusedFor(o, want) || !slices.Equal(o.Missing, []string{"csi-volume:default:" + source}) {
			t.Errorf("missing %v, failed %+v", o.Missing, o.Failed["g"])
		}
	}
}

// Attaching needs the provider's name of the node: without it the plan would be refused.
func TestNodeWhosePluginHasNotToldItsNameTakesNoVolumeThatIsAttached(t *testing.T) {
	for attaches, want := range map[bool]int{true: 0, false: 1} {
		c := newCluster(t)
		c.node("n", func(n *api.Node) {
			n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true}}
			n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
				PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: attaches},
			}}
		})
		c.volume("v", api.AccessSingleNodeWriter)
		j := job("j", api.JobTypeService, 1, withVolume("v"))
		c.register(j)
		if o := c.run(j); len(placed(o)) != want || want == 0 && !refusedFor(o, "has not reported its name") {
			t.Errorf("attaches %v: placed %d, %+v", attaches, len(placed(o)), o.Failed["g"])
		}
	}
}

func TestControllerMustBeHealthyWhereRequired(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil), func(n *api.Node) { n.CSINodePlugins["p"].RequiresControllerPlugin = true })
	c.volume("v", api.AccessSingleNodeWriter)
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if o := c.run(j); !refusedFor(o, "no healthy controller") {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
	c.node("n2", func(n *api.Node) {
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true}}
	})
	if o := c.run(j); len(placed(o)) != 1 {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
}

// A plan that relies on storage which cuts nobody off would be refused, again and again: the reason is told instead, and
// who can change it wakes the job.
func TestVolumeThatReliesOnItsStorageNeedsAPluginThatAttaches(t *testing.T) {
	for mode, want := range map[api.AccessMode]int{api.AccessSingleNodeWriter: 0, api.AccessMultiNodeMultiWriter: 1} {
		c := newCluster(t)
		c.node("n", plugin(10, nil))
		c.volume("v", mode, func(v *api.Volume) { v.Fence = api.FenceStorage })
		j := job("j", api.JobTypeService, 1, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(mode) }))
		c.register(j)
		o := c.run(j)
		if len(placed(o)) != want {
			t.Errorf("%s: placed %d", mode, len(placed(o)))
		}
		if want == 0 && (!refusedFor(o, `has fence = "storage"`) || !slices.Equal(o.Missing, []string{"csi-plugin:p", "csi-volume:default:v"})) {
			t.Errorf("missing %v, failed %+v", o.Missing, o.Failed["g"])
		}
	}
}

// A node that uses the volume without an attach, which its plugin needed none for then, is not cut off by the storage
// although the plugin attaches volumes by now: the plan would be refused again and again.
func TestVolumeThatReliesOnItsStorageComesToNoNodeThatUsesItWithoutAnAttach(t *testing.T) {
	for notCalled, want := range map[bool]int{true: 0, false: 1} {
		c := newCluster(t)
		c.node("n", plugin(10, nil), func(n *api.Node) {
			n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
				PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true},
			}}
		})
		c.volume("v", api.AccessMultiNodeSingleWriter, func(v *api.Volume) { v.Fence = api.FenceStorage })
		c.write(func(tx *state.Txn) {
			tx.PutAttachment(&api.VolumeAttachment{
				PluginID: "p", ExternalID: "ext-v", NodeID: "n", State: api.AttachmentPublished, NotCalled: notCalled,
				AccessMode: api.AccessMultiNodeSingleWriter, AttachmentMode: api.AttachmentFileSystem,
			})
		})
		j := job("j", api.JobTypeService, 1, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeSingleWriter) }))
		c.register(j)
		o := c.run(j)
		if len(placed(o)) != want {
			t.Errorf("not called %v: placed %d, failed %+v", notCalled, len(placed(o)), o.Failed["g"])
		}
		if want == 0 && (!refusedFor(o, "is used on node n without an attach") || !slices.Equal(o.Missing, []string{"csi-volume:default:v"})) {
			t.Errorf("missing %v, failed %+v", o.Missing, o.Failed["g"])
		}
	}
}

func TestTopologyMustContainOneOfTheVolumes(t *testing.T) {
	c := newCluster(t)
	c.node("a", plugin(10, map[string]string{"zone": "a", "rack": "1"}))
	c.node("b", plugin(10, map[string]string{"Zone": "b", "rack": "2"}))
	c.volume("v", api.AccessSingleNodeWriter, func(v *api.Volume) {
		v.Provision.Topologies = []*api.Topology{nil, {Segments: map[string]string{"zone": "c"}}, {Segments: map[string]string{"zone": "b"}}}
	})
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if p := placed(c.run(j)); len(p) != 1 || p[0].NodeID != "b" {
		t.Fatalf("placed %+v", p)
	}
}

// Planned volumes count, per_alloc and several volumes too; an attached volume counts once.
func TestVolumeLimitCountsDistinctVolumes(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(2, nil))
	c.node("n2", plugin(2, nil))
	for _, id := range []string{"d[0]", "d[1]", "d[2]", "d[3]", "d[4]", "log"} {
		c.volume(id, api.AccessMultiNodeMultiWriter)
	}
	multi := func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }
	perAlloc := func(r *api.VolumeRequest) { multi(r); r.PerAlloc = true }
	j := job("j", api.JobTypeService, 5, withVolume("d", perAlloc))
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 4 || !refusedFor(o, "maximum number of volumes on client n1") {
		t.Fatalf("placed %d: %+v", len(placed(o)), o.Failed["g"])
	}
	k := job("k", api.JobTypeService, 3, withVolume("log", multi))
	fresh := newCluster(t)
	fresh.node("n1", plugin(1, nil))
	fresh.volume("log", api.AccessMultiNodeMultiWriter)
	fresh.register(k)
	if o := fresh.run(k); len(placed(o)) != 3 {
		t.Fatalf("one shared volume: placed %d: %+v", len(placed(o)), o.Failed["g"])
	}
	both := newCluster(t)
	both.node("n1", plugin(1, nil))
	both.volume("x", api.AccessMultiNodeMultiWriter)
	both.volume("y", api.AccessMultiNodeMultiWriter)
	l := job("l", api.JobTypeService, 1, withVolume("x", multi), withVolume("y", multi))
	both.register(l)
	if o := both.run(l); len(placed(o)) != 0 || !refusedFor(o, "maximum number of volumes") {
		t.Fatalf("two volumes on a node for one: placed %d", len(placed(o)))
	}
}

// A single writer is not given twice, neither within a plan nor to another job; the reason names the holder.
func TestSingleWriterIsGivenOnce(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	c.node("n2", plugin(10, nil))
	c.volume("v", api.AccessSingleNodeWriter)
	j := job("j", api.JobTypeService, 2, withVolume("v"))
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 1 || o.Queued["g"] != 1 {
		t.Fatalf("placed %d", len(placed(o)))
	}
	c.claim(o, "v")
	k := job("k", api.JobTypeService, 1, withVolume("v"))
	c.register(k)
	o = c.run(k)
	if len(placed(o)) != 0 || !refusedFor(o, `job "j"`) || !slices.Contains(o.Missing, "csi-volume:default:v") {
		t.Fatalf("placed %d, missing %v: %+v", len(placed(o)), o.Missing, o.Failed["g"])
	}
}

// A mode outside the volume's capabilities is refused.
// Who waits for a volume on a node that is not heard is told so, and the command that ends that.
func TestRefusalTellsOfAHolderThatIsNotHeard(t *testing.T) {
	for want, change := range map[string]func(*api.Allocation, *api.VolumeClaim){
		"its node is disconnected, and it may still run there: it is free when the node is back and has stopped it, or when it is declared lost; `nomad job stop first` ends that": func(a *api.Allocation, _ *api.VolumeClaim) { a.ClientStatus = api.AllocClientStatusUnknown },
		"its node is disconnected: it is free when the node is back and has unmounted it, or is declared lost; `nomad volume detach -force v n` ends that": func(a *api.Allocation, c *api.VolumeClaim) {
			a.ClientStatus, c.State = api.AllocClientStatusLost, api.ClaimReleasing
		},
	} {
		c := newCluster(t)
		c.node("n", plugin(10, nil))
		c.volume("v", api.AccessSingleNodeWriter)
		first := job("first", api.JobTypeService, 1, withVolume("v"))
		c.register(first)
		o := c.run(first)
		c.claim(o, "v")
		c.write(func(tx *state.Txn) {
			n := *tx.Node("n")
			n.Status = api.NodeStatusDisconnected
			tx.PutNode(&n)
			for row := range tx.ClaimsByExternal("p", "ext-v") {
				a, claim := *tx.Alloc(row.AllocID), *row
				change(&a, &claim)
				tx.PutAlloc(&a)
				tx.PutClaim(&claim)
			}
		})
		c.node("n2", plugin(10, nil))
		second := job("second", api.JobTypeService, 1, withVolume("v"))
		c.register(second)
		if o := c.run(second); len(placed(o)) != 0 || !refusedFor(o, want) {
			t.Errorf("%s: %+v", want, o.Failed["g"])
		}
	}
}

func TestModeMustBeOffered(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	c.volume("v", api.AccessSingleNodeWriter)
	j := job("j", api.JobTypeService, 1, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }))
	c.register(j)
	if o := c.run(j); len(placed(o)) != 0 || !refusedFor(o, "does not offer") {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
}

// Replacing the holder of an exclusive volume stops it and places the successor in one plan.
func TestHolderIsReplacedInOnePlan(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	c.node("n2", plugin(10, nil))
	c.volume("v", api.AccessSingleNodeWriter)
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	c.claim(c.run(j), "v")
	c.setRunning("j")
	holder := c.live("j")["j.g[0]"]
	j = job("j", api.JobTypeService, 1, withVolume("v"), func(j *api.Job) { j.TaskGroups[0].Tasks[0].User = "www" })
	c.register(j)
	o := c.run(j)
	if p, s := placed(o), stopped(o); len(p) != 1 || len(s) != 1 || p[0].PreviousAllocation != holder.ID || s[0].ID != holder.ID {
		t.Fatalf("placed %d, stopped %d: %+v", len(p), len(s), o.Failed["g"])
	}
}

func TestVolumeThatIsNotReadyIsRefused(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	c.volume("v", api.AccessSingleNodeWriter, func(v *api.Volume) { v.Provision.State = api.VolumeDeleting })
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if o := c.run(j); !refusedFor(o, `volume "v" is being deleted`) {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
}

func TestVolumeThatIsDeletedThroughAnotherSpecIsRefused(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	c.volume("v", api.AccessSingleNodeWriter, func(v *api.Volume) { v.Provision.ExternalID = "x" })
	c.volume("w", api.AccessSingleNodeWriter, func(v *api.Volume) {
		v.Provision.ExternalID, v.Provision.State = "x", api.VolumeDeleting
	})
	j := job("j", api.JobTypeService, 1, withVolume("v"))
	c.register(j)
	if o := c.run(j); !refusedFor(o, `volume "w" in namespace "default" is being deleted`) {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
}

func TestUsesOfOneVolumeTakeOnePlace(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(1, nil))
	c.volume("v", api.AccessMultiNodeMultiWriter)
	multi := func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }
	twice := func(id, one, other string) *api.Job {
		j := job(id, api.JobTypeService, 1, withVolume("v", multi))
		again := *j.TaskGroups[0].Volumes["v"]
		again.ReadOnly, again.MountOptions = true, &api.MountOptions{FSType: one}
		j.TaskGroups[0].Volumes["again"] = &again
		j.TaskGroups[0].Volumes["v"].MountOptions = &api.MountOptions{FSType: other}
		c.register(j)
		return j
	}
	if o := c.run(twice("good", "ext4", "ext4")); len(placed(o)) != 1 {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
	j := twice("bad", "xfs", "ext4")
	if o := c.run(j); !refusedFor(o, `volumes "again" and "v" are the same volume`) {
		t.Fatalf("failed %+v", o.Failed["g"])
	}
}

// Two specifications may name one external volume. A group that asks for both, where one user excludes the other, is
// told so, and placed when a specification changes: no plan of it could be committed.
func TestOneAllocationCannotHaveAnExclusiveVolumeByTwoSpecs(t *testing.T) {
	both := func(v *api.Volume) { v.Provision.ExternalID = "x" }
	for _, c := range []struct {
		mode   api.AccessMode
		placed int
	}{{api.AccessSingleNodeWriter, 0}, {api.AccessMultiNodeMultiWriter, 1}} {
		s := newCluster(t)
		s.node("n1", plugin(10, nil))
		s.volume("v", c.mode, both)
		s.volume("w", c.mode, both)
		as := func(r *api.VolumeRequest) { r.AccessMode = string(c.mode) }
		j := job("j", api.JobTypeService, 1, withVolume("v", as), withVolume("w", as))
		s.register(j)
		o := s.run(j)
		if len(placed(o)) != c.placed {
			t.Errorf("%s: placed %d, want %d", c.mode, len(placed(o)), c.placed)
		}
		if c.placed > 0 {
			continue
		}
		if !refusedFor(o, `volumes "v" and "w" name the same external volume`) {
			t.Errorf("failed %+v", o.Failed["g"])
		}
		if want := []string{"csi-volume:default:v", "csi-volume:default:w"}; !slices.Equal(o.Missing, want) {
			t.Errorf("it waits for %v, want %v", o.Missing, want)
		}
	}
}

// What the volume's own options make of two uses is waited for: the specification may change.
func TestUsesThatTheVolumeKeepsApartWaitForIt(t *testing.T) {
	c := newCluster(t)
	c.node("n1", plugin(10, nil))
	own := func(v *api.Volume) { v.MountOptions = &api.MountOptions{FSType: "ext4"} }
	c.volume("v", api.AccessMultiNodeMultiWriter, own)
	j := job("j", api.JobTypeService, 1, withVolume("v", func(r *api.VolumeRequest) { r.AccessMode = string(api.AccessMultiNodeMultiWriter) }))
	again := *j.TaskGroups[0].Volumes["v"]
	again.MountOptions = &api.MountOptions{FSType: "xfs"}
	j.TaskGroups[0].Volumes["again"] = &again
	c.register(j)
	if o := c.run(j); !refusedFor(o, "it is mounted as one file system") || !slices.Equal(o.Missing, []string{"csi-volume:default:v"}) {
		t.Fatalf("missing %v, failed %+v", o.Missing, o.Failed["g"])
	}
}

// A system job waits for what others have of a volume, as every job does: no change of a node would have it looked at
// again. Nodes where the volume cannot be used at all are left out of such a job.
func TestSystemJobsWaitForVolumesThatOthersHave(t *testing.T) {
	for name, c := range map[string]struct {
		limit    int64
		zone     string
		holds    string
		want     string
		waitsFor []string
	}{
		"held":     {10, "", "v", "is held as single-node-writer by allocation a1", []string{"csi-volume:default:v"}},
		"limit":    {1, "", "other", "has the maximum number of volumes", []string{"csi-plugin:p", "csi-volume:default:v"}},
		"topology": {10, "away", "other", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			w.node("n1", plugin(c.limit, nil))
			w.volume("other", api.AccessSingleNodeWriter)
			w.volume("v", api.AccessSingleNodeWriter, func(v *api.Volume) {
				if c.zone != "" {
					v.Provision.Topologies = []*api.Topology{{Segments: map[string]string{"zone": c.zone}}}
				}
			})
			w.write(func(tx *state.Txn) {
				tx.PutClaim(&api.VolumeClaim{
					Namespace: "default", VolumeID: c.holds, AllocID: "a1", NodeID: "n1", JobID: "holder", PluginID: "p", ExternalID: "ext-" + c.holds,
					Mode: api.ClaimWrite, AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem, State: api.ClaimReady,
				})
			})
			j := job("j", api.JobTypeSystem, 1, withVolume("v"))
			w.register(j)
			o := w.run(j)
			done := scheduler.Done(&api.Evaluation{ID: "e"}, o, 1, w.now, w.id)
			if c.want == "" {
				if len(o.Failed) != 0 || len(done) != 1 {
					t.Fatalf("failed %+v, %d evaluations", o.Failed["g"], len(done))
				}
				return
			}
			if len(placed(o)) != 0 || !refusedFor(o, c.want) || len(o.FullNodes) != 0 || o.Queued["g"] != 1 {
				t.Fatalf("queued %v, full %v, failed %+v", o.Queued, o.FullNodes, o.Failed["g"])
			}
			if b := done[0]; b.Status != api.EvalStatusBlocked || !slices.Equal(b.MissingNonNodeResources, c.waitsFor) {
				t.Fatalf("blocked %+v", b)
			}
		})
	}
}
