package evals_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (w *world) pluginNode(id string, healthy bool) {
	w.write(func(tx *state.Txn) {
		n := *tx.Node(id)
		n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: healthy, NodeInfo: &api.CSINodeInfo{ID: id, MaxVolumes: 10}}}
		tx.PutNode(&n)
	})
}

func (w *world) volume(id string) {
	w.write(func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{
			VolumeSpec: api.VolumeSpec{ID: id, Namespace: "default", PluginID: "p", RequestedCapabilities: []*api.VolumeCapability{
				{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem},
			}},
			Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"},
		})
	})
}

// blockedJob registers a job with a volume whose evaluation ends without a placement.
func (w *world) blockedJob(id string, n int) *api.Evaluation {
	w.t.Helper()
	w.volumeJob(id, evalID(n))
	e := w.untilEval(evalID(n), api.EvalStatusComplete)
	return w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
}

func (w *world) volumeJob(id, eval string) { w.volumeJobOn("v", id, eval) }

func (w *world) volumeJobOn(volume, id, eval string) {
	w.jobOn(volume, id, eval, api.AccessSingleNodeWriter)
}

func (w *world) sharingJobOn(volume, id, eval string) {
	w.jobOn(volume, id, eval, api.AccessMultiNodeMultiWriter)
}

func (w *world) jobOn(volume, id, eval string, mode api.AccessMode) {
	w.write(func(tx *state.Txn) {
		j := &api.Job{
			ID: id, Namespace: "default", Type: api.JobTypeService, Priority: 50, JobModifyIndex: tx.Index(),
			TaskGroups: []*api.TaskGroup{{
				Name: "g", Count: 1,
				Tasks: []*api.Task{{Name: "t", Driver: "mock", Resources: &api.Resources{CPU: 100, MemoryMB: 100}}},
				Volumes: map[string]*api.VolumeRequest{"v": {
					Name: "v", Type: api.VolumeTypeCSI, Source: volume,
					AccessMode: string(mode), AttachmentMode: string(api.AttachmentFileSystem),
				}},
			}},
		}
		tx.PutJob(j)
		tx.PutEval(&api.Evaluation{
			ID: eval, Namespace: "default", JobID: id, Type: j.Type, Priority: 50, Status: api.EvalStatusPending,
			TriggeredBy: api.TriggerJobRegister, JobModifyIndex: tx.Index(),
		})
	})
}

// newVolumeWorld has a node with a healthy plugin, and a volume v of it.
func newVolumeWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.node("n1")
	w.pluginNode("n1", true)
	w.volume("v")
	return w
}

// stopHolder stops the job "holder", whose claim stays.
func (w *world) stopHolder(held *api.Allocation) {
	w.write(func(tx *state.Txn) {
		j := *tx.Job("default", "holder")
		j.Stop = true
		tx.PutJob(&j)
		a := *tx.Alloc(held.ID)
		a.DesiredStatus = api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
	})
}

func TestVolumeCreatedAfterItsJobWakesIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.pluginNode("n1", true)
	b := w.blockedJob("j", 1)
	if !slices.Contains(b.MissingNonNodeResources, "csi-volume:default:v") {
		t.Fatalf("waits for %v", b.MissingNonNodeResources)
	}
	w.volume("v")
	w.untilLive("j", 1)
	a := w.live("j")[0]
	if c := w.store.Read().Claim("default", "v", a.ID, ""); c == nil || c.NodeID != "n1" {
		t.Fatalf("claim %+v", c)
	}
}

func TestPluginThatBecomesHealthyWakes(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.pluginNode("n1", false)
	w.volume("v")
	w.blockedJob("j", 1)
	w.pluginNode("n1", true)
	w.untilLive("j", 1)
}

// A claim that is released wakes the job that waits for it.
func TestFreedClaimWakes(t *testing.T) {
	w := newVolumeWorld(t)
	w.volumeJob("holder", evalID(1))
	w.untilLive("holder", 1)
	held := w.live("holder")[0]
	b := w.blockedJob("waiter", 2)
	if !slices.Contains(b.MissingNonNodeResources, "csi-volume:default:v") {
		t.Fatalf("waits for %v", b.MissingNonNodeResources)
	}
	w.stopHolder(held)
	if n := len(w.live("waiter")); n != 0 {
		t.Fatalf("%d placed while the volume was held", n)
	}
	w.write(func(tx *state.Txn) { tx.DeleteClaim("default", "v", held.ID, "") })
	w.untilLive("waiter", 1)
}

// A claim freed through one volume wakes the job that waits for the same external volume under another name.
func TestFreedClaimWakesThoseThatWaitForItUnderAnotherName(t *testing.T) {
	w := newVolumeWorld(t)
	w.volume("w")
	w.volumeJobOn("w", "holder", evalID(1))
	w.untilLive("holder", 1)
	held := w.live("holder")[0]
	w.blockedJob("waiter", 2)
	w.stopHolder(held)
	w.write(func(tx *state.Txn) { tx.DeleteClaim("default", "w", held.ID, "") })
	w.untilLive("waiter", 1)
}

// A claim that is unmounted leaves its volume to whoever comes to the same node, though its detach may never end.
func TestUnmountedClaimWakes(t *testing.T) {
	w := newVolumeWorld(t)
	w.volumeJob("holder", evalID(1))
	w.untilLive("holder", 1)
	held := w.live("holder")[0]
	w.blockedJob("waiter", 2)
	w.write(func(tx *state.Txn) {
		c := *tx.Claim("default", "v", held.ID, "")
		c.State = api.ClaimUnmounted
		tx.PutClaim(&c)
	})
	w.untilLive("waiter", 1)
}

// An earlier creation that made the external volume, and that is not undone after all, keeps nobody from it any more.
func TestEarlierCreationThatIsNotUndoneWakes(t *testing.T) {
	w := newVolumeWorld(t)
	other := func(replaces *api.VolumeSpec) {
		w.write(func(tx *state.Txn) {
			tx.PutVolume(&api.Volume{
				VolumeSpec: api.VolumeSpec{ID: "o", Namespace: "default", PluginID: "p"},
				Provision:  api.VolumeProvision{State: api.VolumeCreating, Replaces: replaces},
			})
		})
	}
	v := w.store.Read().Volume("default", "v")
	other(&api.VolumeSpec{ID: "o", Namespace: "default", PluginID: v.PluginID, ExternalID: v.RemoteID()})
	w.blockedJob("j", 1)
	other(nil)
	w.untilLive("j", 1)
}

// Two jobs race for one single-writer volume; at no time do both have it.
func TestRaceForASingleWriterHasOneWinner(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.node("n1")
		w.node("n2")
		w.pluginNode("n1", true)
		w.pluginNode("n2", true)
		w.volume("v")
		w.volumeJob("a", evalID(1))
		w.volumeJob("b", evalID(2))
		w.untilEval(evalID(1), api.EvalStatusComplete)
		w.untilEval(evalID(2), api.EvalStatusComplete)
		if n := len(w.live("a")) + len(w.live("b")); n != 1 {
			t.Fatalf("%d allocations have the volume", n)
		}
	}
}

// A learned limit that is forgotten wakes the job that it kept waiting.
func TestForgottenLimitWakes(t *testing.T) {
	w := newVolumeWorld(t)
	limit := func(limits map[string]*api.CSILimit) {
		w.write(func(tx *state.Txn) {
			n := *tx.Node("n1")
			n.CSILimits = limits
			tx.PutNode(&n)
		})
	}
	limit(map[string]*api.CSILimit{"p": {Volumes: 0, Until: 1}})
	w.blockedJob("j", 1)
	limit(nil)
	w.untilLive("j", 1)
}

// TestCleanNodeWakes has a job wait for the mount of a claim that was given up.
func TestCleanNodeWakes(t *testing.T) {
	w := newVolumeWorld(t)
	stale := func(mounts ...*api.StaleMount) {
		w.write(func(tx *state.Txn) {
			n, v := *tx.Node("n1"), tx.Volume("default", "v")
			for _, m := range mounts {
				m.PluginID, m.ExternalID = v.PluginID, v.RemoteID()
			}
			n.StaleMounts = mounts
			tx.PutNode(&n)
		})
	}
	stale(&api.StaleMount{VolumeID: "v", AllocID: "old"})
	w.blockedJob("j", 1)
	stale()
	w.untilLive("j", 1)
}

// TestGoneMountsOfAnOldNodeWake has a job wait on a new node for what an old one on the same machine may have mounted.
func TestGoneMountsOfAnOldNodeWake(t *testing.T) {
	old := func(w *world, change func(*api.Node)) {
		w.write(func(tx *state.Txn) {
			n := *tx.Node("old")
			change(&n)
			tx.PutNode(&n)
		})
	}
	cures := map[string]func(*world){
		"an operator's word": func(w *world) { old(w, func(n *api.Node) { n.StaleMounts = nil }) },
		"a purge":            func(w *world) { w.write(func(tx *state.Txn) { tx.DeleteNode("old") }) },
		"another boot":       func(w *world) { old(w, func(n *api.Node) { n.BootID = "boot-2" }) },
		"a boot that the new node tells of first": func(w *world) {
			w.write(func(tx *state.Txn) {
				n := *tx.Node("n1")
				n.BootID = "boot-2"
				tx.PutNode(&n)
			})
		},
		"another machine of the new node": func(w *world) {
			w.write(func(tx *state.Txn) {
				n, info := *tx.Node("n1"), *tx.Node("n1").CSINodePlugins["p"]
				told := *info.NodeInfo
				told.ID, info.NodeInfo = "another", &told
				n.CSINodePlugins = map[string]*api.CSIInfo{"p": &info}
				tx.PutNode(&n)
			})
		},
	}
	for name, cure := range cures {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.pluginNode("n1", true)
			w.controller("n1", true)
			w.node("old")
			w.volume("v")
			w.write(func(tx *state.Txn) {
				n, v := *tx.Node("n1"), tx.Volume("default", "v")
				n.BootID = "boot-1"
				tx.PutNode(&n)
				o := *tx.Node("old")
				o.Status, o.BootID = api.NodeStatusDown, "boot-1"
				o.StaleMounts = []*api.StaleMount{{VolumeID: "v", AllocID: "lost", PluginID: v.PluginID, ExternalID: v.RemoteID(), ProviderNodeID: n.CSINodePlugins["p"].NodeInfo.ID}}
				tx.PutNode(&o)
			})
			w.blockedJob("j", 1)
			cure(w)
			w.untilLive("j", 1)
		})
	}
}

// TestVolumeWithoutItsFenceIsWaitedFor: a volume whose fence is its storage is not placed where nobody detaches, and
// the job runs when somebody does or when the volume has another fence.
func TestVolumeWithoutItsFenceIsWaitedFor(t *testing.T) {
	cures := map[string]func(*world){
		"another fence": func(w *world) {
			w.write(func(tx *state.Txn) {
				v := *tx.Volume("default", "v")
				v.Fence = api.FenceLease
				tx.PutVolume(&v)
			})
		},
		"a controller that detaches": func(w *world) { w.controller("n1", true) },
	}
	for name, cure := range cures {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.pluginNode("n1", true)
			w.controller("n1", false)
			w.volume("v")
			w.write(func(tx *state.Txn) {
				v := *tx.Volume("default", "v")
				v.Fence = api.FenceStorage
				tx.PutVolume(&v)
			})
			b := w.blockedJob("j", 1)
			if !slices.Contains(b.MissingNonNodeResources, "csi-volume:default:v") {
				t.Fatalf("waits for %v, %+v", b.MissingNonNodeResources, b.FailedTGAllocs["g"])
			}
			cure(w)
			w.untilLive("j", 1)
		})
	}
}

// TestVolumeWithoutItsFenceIsWaitedForUntilNobodyExcludesOthers: what another spec of the external volume allows may be
// why its fence matters.
func TestVolumeWithoutItsFenceIsWaitedForUntilNobodyExcludesOthers(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.pluginNode("n1", true)
	w.controller("n1", false)
	w.volume("v")
	w.volume("w")
	shared := func(id string) {
		w.write(func(tx *state.Txn) {
			v := *tx.Volume("default", id)
			v.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}}
			v.Fence = api.FenceStorage
			tx.PutVolume(&v)
		})
	}
	shared("v")
	w.sharingJobOn("v", "j", evalID(1))
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	shared("w")
	w.untilLive("j", 1)
}

// controller has a node run a healthy controller of the plugin that attaches volumes, or not.
func (w *world) controller(node string, attaches bool) {
	w.write(func(tx *state.Txn) {
		n := *tx.Node(node)
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: attaches},
		}}
		tx.PutNode(&n)
	})
}

// TestControllerOnANodeThatTakesNoWorkWakes: its plugin attaches volumes for all nodes as soon as it is back, or can.
func TestControllerOnANodeThatTakesNoWorkWakes(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.pluginNode("n1", true)
	w.node("n2")
	w.controller("n2", true)
	status := func(s string) {
		w.write(func(tx *state.Txn) {
			n := *tx.Node("n2")
			n.SchedulingEligibility, n.Status = api.NodeSchedulingIneligible, s
			tx.PutNode(&n)
		})
	}
	w.volume("v")
	status(api.NodeStatusDown)
	w.blockedJob("j", 1)
	status(api.NodeStatusReady)
	w.untilLive("j", 1)
}

// TestVolumeWithOtherMountOptionsWakes: users with other options do not share a mount on a node.
func TestVolumeWithOtherMountOptionsWakes(t *testing.T) {
	w := newVolumeWorld(t)
	w.volume("w")
	options := func(id, fs string) {
		w.write(func(tx *state.Txn) {
			v := *tx.Volume("default", id)
			v.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}}
			v.MountOptions = &api.MountOptions{FSType: fs}
			tx.PutVolume(&v)
		})
	}
	options("w", "ext4")
	options("v", "xfs")
	w.sharingJobOn("w", "holder", evalID(1))
	w.untilLive("holder", 1)
	w.sharingJobOn("v", "j", evalID(2))
	e := w.untilEval(evalID(2), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	options("v", "ext4")
	w.untilLive("j", 1)
}

// Whatever of a volume refuses it on a node, its job waits for the volume too: it may be registered anew for where the
// driver says that it is now, or for another plugin.
func TestVolumeThatIsRegisteredAnewWakes(t *testing.T) {
	for name, wrong := range map[string]func(*api.Volume){
		"topology": func(v *api.Volume) {
			v.Provision.Topologies = []*api.Topology{{Segments: map[string]string{"zone": "away"}}}
		},
		"plugin": func(v *api.Volume) { v.PluginID = "former" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.pluginNode("n1", true)
			w.volume("v")
			w.write(func(tx *state.Txn) {
				v := *tx.Volume("default", "v")
				wrong(&v)
				tx.PutVolume(&v)
			})
			w.blockedJob("j", 1)
			w.write(func(tx *state.Txn) { tx.DeleteVolume("default", "v") })
			w.volume("v")
			w.untilLive("j", 1)
		})
	}
}

// The same when it is the node that comes to where the volume is: its plugin tells other segments.
func TestNodeThatComesToTheTopologyOfAVolumeWakes(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeBatch} {
		w := newVolumeWorld(t)
		w.write(func(tx *state.Txn) {
			v := *tx.Volume("default", "v")
			v.Provision.Topologies = []*api.Topology{{Segments: map[string]string{"zone": "a"}}}
			tx.PutVolume(&v)
		})
		w.volumeJob("j", evalID(1))
		w.write(func(tx *state.Txn) {
			j := *tx.Job("default", "j")
			j.Type = kind
			tx.PutJob(&j)
		})
		e := w.untilEval(evalID(1), api.EvalStatusComplete)
		w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
		w.changeNode("n1", func(n *api.Node) {
			info := *n.CSINodePlugins["p"]
			told := *info.NodeInfo
			told.AccessibleTopology = &api.Topology{Segments: map[string]string{"zone": "a"}}
			info.NodeInfo = &told
			n.CSINodePlugins = map[string]*api.CSIInfo{"p": &info}
		})
		w.untilLive("j", 1)
	}
}
