package volumes_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) list(q api.VolumeListRequest) []string {
	r.T.Helper()
	out, err := r.Service.List(r.Context(), &q)
	if err != nil {
		r.T.Fatal(err)
	}
	var ids []string
	for _, v := range out.Volumes {
		ids = append(ids, v.Namespace+"/"+v.ID)
	}
	return ids
}

func (r *rig) plugin(id string) *api.Plugin {
	r.T.Helper()
	out, err := r.Service.GetPlugin(r.Context(), &api.PluginGetRequest{ID: id})
	if err != nil {
		r.T.Fatal(err)
	}
	return out.Plugin
}

func TestListByPluginKnowsNamespacesAndPrefixes(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Edit(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "dev"}) })
	other := volumestest.Spec("v1")
	other.Namespace = "dev"
	r.Register(volumestest.Spec("v1"), volumestest.Spec("v2"), volumestest.Spec("w"), other)
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

func TestListByNodeKnowsPerAllocVolumes(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Edit(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "dev"}) })
	twin := volumestest.Spec("v")
	twin.Namespace, twin.ExternalID = "dev", "ext-dev"
	r.Register(volumestest.Spec("v"), volumestest.Spec("data[0]"), volumestest.Spec("unused"), twin)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustPlace(volumestest.Alloc("a2", "n1", "data", writer, volumestest.Of("other"), func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].PerAlloc = true
	}))
	r.MustPlace(volumestest.Alloc("a3", "n1", "v", writer, volumestest.Of("third"), func(a *api.Allocation) { a.Namespace = "dev" }))
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

func TestBlockingQueriesWakeOnWhatTheyShow(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	get := func(min uint64) *api.VolumeGetResponse {
		out, err := r.Service.Get(r.Context(), &api.VolumeGetRequest{ID: "v", QueryOptions: api.QueryOptions{MinIndex: min, MaxWait: 30 * time.Second}})
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
			"plugin health", func() { r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false }) },
			func(v *api.VolumeDetail) bool { return !v.Schedulable && v.ControllersHealthy == 0 },
		},
		{
			"a claim", func() { r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer)) },
			func(v *api.VolumeDetail) bool { return len(v.Claims) == 1 },
		},
		{"a failed attach", func() {
			r.Eventually("no controller", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a != nil && a.LastError != ""
			})
		}, func(v *api.VolumeDetail) bool { return len(v.Attachments) == 1 && v.Attachments[0].LastError != "" }},
		{
			"the allocation", func() { r.Ends("a1", api.AllocClientStatusFailed) },
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
	r.Node("n1")
	first, err := r.Service.Get(r.Context(), &api.VolumeGetRequest{ID: "v"})
	if err != nil || first.Volume != nil || first.Index == 0 {
		t.Fatalf("answer is %+v, %v", first, err)
	}
	done := make(chan *api.VolumeGetResponse, 1)
	go func() {
		out, err := r.Service.Get(r.Context(), &api.VolumeGetRequest{ID: "v", QueryOptions: api.QueryOptions{MinIndex: first.Index}})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	r.Register(volumestest.Spec("v"))
	if out := <-done; out.Volume == nil {
		t.Fatal("the volume is not shown")
	}
}

func TestExpectedCountsFollowJobs(t *testing.T) {
	r := newRig(t)
	put := func(plugin string) {
		r.Edit(func(tx *state.Txn) {
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
	r.Edit(func(tx *state.Txn) {
		stopped := *tx.Job("default", "csi")
		stopped.Stop = true
		tx.PutJob(&stopped)
	})
	if p := r.plugin("p2"); p != nil {
		t.Fatalf("a job that is stopped provides %+v", p)
	}
}

func TestGroupWithTwoPlugins(t *testing.T) {
	r := newRig(t)
	r.Edit(func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "csi", Namespace: "default", Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 3, Tasks: []*api.Task{
			{Name: "a", CSIPluginConfig: &api.CSIPluginConfig{ID: "p1", Type: api.CSIPluginTypeController}},
			{Name: "b", CSIPluginConfig: &api.CSIPluginConfig{ID: "p2", Type: api.CSIPluginTypeMonolith}},
		}}}})
	})
	out, err := r.Service.ListPlugins(r.Context(), &api.PluginListRequest{})
	if err != nil || len(out.Plugins) != 2 {
		t.Fatalf("plugins are %v, %v", out, err)
	}
	if a, b := out.Plugins[0], out.Plugins[1]; a.ControllersExpected != 3 || a.NodesExpected != 0 || b.ControllersExpected != 3 || b.NodesExpected != 3 {
		t.Fatalf("expected are %+v and %+v", a, b)
	}
}

func TestPluginGoesWithItsLastTrace(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	if p := r.plugin("p"); p == nil || p.NodesHealthy != 1 || p.ControllersHealthy != 1 {
		t.Fatalf("plugin is %+v", p)
	}
	r.Down("n1", 0)
	if p := r.plugin("p"); p == nil || p.NodesHealthy != 0 || p.ControllersHealthy != 0 || len(p.Nodes) != 1 {
		t.Fatalf("plugin of a node that is down is %+v", p)
	}
	r.Edit(func(tx *state.Txn) { tx.DeleteNode("n1") })
	if p := r.plugin("p"); p != nil {
		t.Fatalf("plugin is %+v", p)
	}
}

func TestListsOfProvidersHaveWhatTheDriverAnswered(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Lists(
		api.ControllerListResponse{Volumes: []*api.VolumeExternal{{ExternalID: "a"}, {ExternalID: "b"}, {ExternalID: "c"}}, NextToken: "3"},
		api.ControllerSnapshotListResponse{Snapshots: []*api.Snapshot{{ID: "s"}, {ID: "t"}}, NextToken: "2"},
	)
	one := api.QueryOptions{PerPage: 1}
	if out, err := r.Service.ListExternal(r.Context(), &api.VolumeExternalListRequest{PluginID: "p", QueryOptions: one}); err != nil || len(out.Volumes) != 3 || out.NextToken != "3" {
		t.Errorf("more volumes than were asked for: %+v, %v", out, err)
	}
	if out, err := r.Service.ListSnapshots(r.Context(), &api.SnapshotListRequest{PluginID: "p", QueryOptions: one}); err != nil || len(out.Snapshots) != 2 || out.NextToken != "2" {
		t.Errorf("more snapshots than were asked for: %+v, %v", out, err)
	}
}

func TestListsOfProvidersNeedThePluginAndItsCapability(t *testing.T) {
	r := newRig(t)
	r.Node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.SupportsListSnapshots = false })
	if _, err := r.Service.ListExternal(r.Context(), &api.VolumeExternalListRequest{PluginID: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Service.ListSnapshots(r.Context(), &api.SnapshotListRequest{PluginID: "p"}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("error is %v", err)
	}
	if _, err := r.Service.ListExternal(r.Context(), &api.VolumeExternalListRequest{PluginID: "q"}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}
