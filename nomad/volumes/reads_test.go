package volumes_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *rig) list(q api.VolumeListRequest) []string {
	r.t.Helper()
	out, err := r.room.List(r.ctx(), &q)
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []string
	for _, v := range out.Volumes {
		ids = append(ids, v.Namespace+"/"+v.ID)
	}
	return ids
}

func (r *rig) plugin(id string) *api.Plugin {
	r.t.Helper()
	out, err := r.room.GetPlugin(r.ctx(), &api.PluginGetRequest{ID: id})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Plugin
}

func TestS19ListByPluginKnowsNamespacesAndPrefixes(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.edit(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "dev"}) })
	other := spec("v1")
	other.Namespace = "dev"
	r.register(spec("v1"), spec("v2"), spec("w"), other)
	for _, c := range []struct {
		q    api.VolumeListRequest
		want []string
	}{
		{api.VolumeListRequest{PluginID: "p", QueryOptions: api.QueryOptions{Namespace: "*"}}, []string{"default/v1", "default/v2", "default/w", "dev/v1"}},
		{api.VolumeListRequest{PluginID: "p"}, []string{"default/v1", "default/v2", "default/w"}},
		{api.VolumeListRequest{PluginID: "p", QueryOptions: api.QueryOptions{Prefix: "v"}}, []string{"default/v1", "default/v2"}},
		{api.VolumeListRequest{PluginID: "q"}, nil},
		{api.VolumeListRequest{QueryOptions: api.QueryOptions{Prefix: "w", Namespace: "*"}}, []string{"default/w"}},
	} {
		if got := r.list(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v lists %v, not %v", c.q, got, c.want)
		}
	}
}

func TestS20ListByNodeKnowsPerAllocVolumes(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.node("n2", nodeOnly)
	r.edit(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "dev"}) })
	twin := spec("v")
	twin.Namespace, twin.ExternalID = "dev", "ext-dev"
	r.register(spec("v"), spec("data[0]"), spec("unused"), twin)
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustPlace(alloc("a2", "n1", "data", writer, of("other"), func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].PerAlloc = true
	}))
	r.mustPlace(alloc("a3", "n1", "v", writer, of("third"), func(a *api.Allocation) { a.Namespace = "dev" }))
	for range 5 {
		got := r.list(api.VolumeListRequest{NodeID: "n1", QueryOptions: api.QueryOptions{Namespace: "*"}})
		if want := []string{"default/data[0]", "default/v", "dev/v"}; !slices.Equal(got, want) {
			t.Fatalf("on the node are %v, not %v", got, want)
		}
	}
	if got := r.list(api.VolumeListRequest{NodeID: "n2"}); len(got) != 0 {
		t.Fatalf("on the other node are %v", got)
	}
}

func TestS21BlockingQueriesWakeOnWhatTheyShow(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	get := func(min uint64) *api.VolumeGetResponse {
		out, err := r.room.Get(r.ctx(), &api.VolumeGetRequest{ID: "v", QueryOptions: api.QueryOptions{MinIndex: min, MaxWait: 5 * time.Second}})
		if err != nil {
			t.Error(err)
		}
		return out
	}
	for _, c := range []struct {
		what   string
		change func()
		shown  func(*api.VolumeDetail) bool
	}{
		{
			"plugin health", func() { r.change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false }) },
			func(v *api.VolumeDetail) bool { return !v.Schedulable && v.ControllersHealthy == 0 },
		},
		{
			"a claim", func() { r.mustPlace(alloc("a1", "n1", "v", writer)) },
			func(v *api.VolumeDetail) bool { return len(v.Claims) == 1 },
		},
		{"a failed attach", func() {
			r.eventually("no controller", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a != nil && a.LastError != ""
			})
		}, func(v *api.VolumeDetail) bool { return len(v.Attachments) == 1 && v.Attachments[0].LastError != "" }},
		{
			"the allocation", func() { r.ends("a1", api.AllocClientStatusFailed) },
			func(v *api.VolumeDetail) bool {
				return len(v.Allocations) == 0 || v.Allocations[0].ClientStatus == api.AllocClientStatusFailed
			},
		},
	} {
		before := get(0)
		done := make(chan *api.VolumeGetResponse, 1)
		go func() {
			out := before
			for !c.shown(out.Volume) && !t.Failed() {
				last := out.Index
				if out = get(last); out.Index <= last {
					t.Errorf("%s: the query was not woken", c.what)
				}
			}
			done <- out
		}()
		c.change()
		if out := <-done; out.Index < before.Index {
			t.Errorf("%s: index went from %d to %d", c.what, before.Index, out.Index)
		}
	}
}

func TestGetOfAMissingVolumeBlocksUntilItIsThere(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	first, err := r.room.Get(r.ctx(), &api.VolumeGetRequest{ID: "v"})
	if err != nil || first.Volume != nil || first.Index == 0 {
		t.Fatalf("answer is %+v, %v", first, err)
	}
	done := make(chan *api.VolumeGetResponse, 1)
	go func() {
		out, err := r.room.Get(r.ctx(), &api.VolumeGetRequest{ID: "v", QueryOptions: api.QueryOptions{MinIndex: first.Index}})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	r.register(spec("v"))
	if out := <-done; out.Volume == nil {
		t.Fatal("the volume is not shown")
	}
}

func TestS22ExpectedCountsFollowJobs(t *testing.T) {
	r := newRig(t)
	put := func(plugin string) {
		r.edit(func(tx *state.Txn) {
			j := &api.Job{ID: "csi", Namespace: "default", Type: api.JobTypeSystem, TaskGroups: []*api.TaskGroup{{
				Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: plugin, Type: api.CSIPluginTypeNode}}},
			}}}
			tx.PutJob(j)
			for _, id := range []string{"x1", "x2"} {
				tx.PutAlloc(&api.Allocation{
					ID: id, Namespace: "default", JobID: "csi", TaskGroup: "g", NodeID: "node-" + id, Job: j,
					DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
				})
			}
		})
	}
	put("p1")
	if p := r.plugin("p1"); p == nil || p.NodesExpected != 2 || p.ControllersExpected != 0 {
		t.Fatalf("plugin is %+v", p)
	}
	put("p2")
	if p := r.plugin("p1"); p != nil {
		t.Fatalf("a ghost is left: %+v", p)
	}
	if p := r.plugin("p2"); p == nil || p.NodesExpected != 2 {
		t.Fatalf("plugin is %+v", p)
	}
}

func TestS23GroupWithTwoPlugins(t *testing.T) {
	r := newRig(t)
	r.edit(func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "csi", Namespace: "default", Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 3, Tasks: []*api.Task{
			{Name: "a", CSIPluginConfig: &api.CSIPluginConfig{ID: "p1", Type: api.CSIPluginTypeController}},
			{Name: "b", CSIPluginConfig: &api.CSIPluginConfig{ID: "p2", Type: api.CSIPluginTypeMonolith}},
		}}}})
	})
	out, err := r.room.ListPlugins(r.ctx(), &api.PluginListRequest{})
	if err != nil || len(out.Plugins) != 2 {
		t.Fatalf("plugins are %v, %v", out, err)
	}
	if a, b := out.Plugins[0], out.Plugins[1]; a.ControllersExpected != 3 || a.NodesExpected != 0 || b.ControllersExpected != 3 || b.NodesExpected != 3 {
		t.Fatalf("expected are %+v and %+v", a, b)
	}
}

func TestS24PluginGoesWithItsLastTrace(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	if p := r.plugin("p"); p == nil || p.NodesHealthy != 1 || p.ControllersHealthy != 1 {
		t.Fatalf("plugin is %+v", p)
	}
	r.down("n1", 0)
	if p := r.plugin("p"); p == nil || p.NodesHealthy != 0 || p.ControllersHealthy != 0 || len(p.Nodes) != 1 {
		t.Fatalf("plugin of a node that is down is %+v", p)
	}
	r.edit(func(tx *state.Txn) { tx.DeleteNode("n1") })
	if p := r.plugin("p"); p != nil {
		t.Fatalf("plugin is %+v", p)
	}
}

func TestS26PlanApplyChecksClaims(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.node("n2", nodeOnly)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	// Another group of the same job may not have it either while the first is not leaving.
	err := r.place(alloc("a2", "n2", "v", writer, func(a *api.Allocation) { a.TaskGroup = "h"; a.Job.TaskGroups[0].Name = "h" }))
	if !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
	if r.state.Read().Alloc("a2") != nil {
		t.Fatal("the placement was stored without its claim")
	}
	if err := r.place(alloc("a3", "n1", "absent", writer)); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestS27OnlyCapabilitiesOfTheVolumeCanBeClaimed(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	err := r.place(alloc("a1", "n1", "v", api.AccessMultiNodeMultiWriter))
	if !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
}

func TestS32SnapshotsNameTheirSource(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	out, err := r.room.CreateSnapshots(r.ctx(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: "s"}}})
	if err != nil || len(out.Snapshots) != 1 {
		t.Fatalf("answer is %v, %v", out, err)
	}
	if s := out.Snapshots[0]; s.SourceVolumeID != "v" || s.PluginID != "p" || s.ID != "snap" {
		t.Fatalf("snapshot is %+v", s)
	}
	if _, err := r.room.DeleteSnapshot(r.ctx(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); err != nil || n.count("Controller.SnapshotDelete") != 1 {
		t.Fatalf("error is %v", err)
	}
	if _, err := r.room.CreateSnapshots(r.ctx(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "absent"}}}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestListsOfProvidersAreCutToTheirPage(t *testing.T) {
	r := newRig(t)
	r.node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.SupportsListSnapshots = false })
	if _, err := r.room.ListExternal(r.ctx(), &api.VolumeExternalListRequest{PluginID: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.room.ListSnapshots(r.ctx(), &api.SnapshotListRequest{PluginID: "p"}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("error is %v", err)
	}
	if _, err := r.room.ListExternal(r.ctx(), &api.VolumeExternalListRequest{PluginID: "q"}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestRunEndsWhileACallHangs(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.on("Controller.Publish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	r.mustPlace(alloc("a1", "n1", "v", writer))
	n.await(t, "Controller.Publish")
	r.halt()
}
