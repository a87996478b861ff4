package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func walkVolumes(t *testing.T, a *kit.Agent) {
	volumes := a.API.CSIVolumes()
	ways := []*api.CSIVolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	made := wrote[[]*api.CSIVolume](t)(volumes.Create(&api.CSIVolume{
		ID: "v2", Name: "v2", PluginID: "hp", RequestedCapacityMin: 1 << 20, RequestedCapabilities: ways,
		Secrets: api.CSISecrets{"password": "hunter2"},
	}, nil))
	if len(made) != 1 || made[0].ExternalID == "" || made[0].Capacity < 1<<20 {
		t.Fatalf("created: %+v", made)
	}
	if v := ok[*api.CSIVolume](t)(volumes.Info("v2", nil)); !v.Schedulable || v.PluginID != "hp" || v.Secrets["password"] == "hunter2" {
		t.Errorf("volume: %+v", v)
	}
	if list := ok[[]*api.CSIVolumeListStub](t)(volumes.List(nil)); !slices.ContainsFunc(list, func(v *api.CSIVolumeListStub) bool { return v.ID == "v1" && v.CurrentWriters == 1 }) {
		t.Errorf("list: %+v", list)
	}
	external := ok[*api.CSIVolumeListExternalResponse](t)(volumes.ListExternal("hp", &api.QueryOptions{}))
	if !slices.ContainsFunc(external.Volumes, func(v *api.CSIVolumeExternalStub) bool { return v.ExternalID == made[0].ExternalID }) {
		t.Errorf("external volumes: %+v", external)
	}
	if err := volumes.Deregister("v2", false, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err := volumes.Info("v2", nil)
	refused(t, err, 404, "volume not found")
	if _, err := volumes.Register(&api.CSIVolume{ID: "v2", Name: "v2", PluginID: "hp", ExternalID: made[0].ExternalID, RequestedCapabilities: ways}, nil); err != nil {
		t.Fatal(err)
	}
	if err := volumes.Delete("v2", nil); err != nil {
		t.Fatal(err)
	}
	external = ok[*api.CSIVolumeListExternalResponse](t)(volumes.ListExternal("hp", &api.QueryOptions{}))
	if slices.ContainsFunc(external.Volumes, func(v *api.CSIVolumeExternalStub) bool { return v.ExternalID == made[0].ExternalID }) {
		t.Errorf("the deleted volume is still at the provider")
	}
	if err := volumes.Deregister("v1", false, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a volume in use was deregistered: %v", err)
	}
	if err := volumes.Detach("v1", "", nil); err == nil {
		t.Error("detach without a node was taken")
	}
	if list := ok[[]*api.CSIPluginListStub](t)(a.API.CSIPlugins().List(nil)); len(list) != 1 || list[0].ID != "hp" || list[0].NodesHealthy != 1 {
		t.Errorf("plugins: %+v", list)
	}
	_, _, err = a.API.CSIPlugins().Info("nothing", nil)
	refused(t, err, 404, "plugin not found")
}

func walkSnapshots(t *testing.T, a *kit.Agent) {
	volumes := a.API.CSIVolumes()
	made := wrote[*api.CSISnapshotCreateResponse](t)(volumes.CreateSnapshot(&api.CSISnapshot{Name: "s1", SourceVolumeID: "v1", PluginID: "hp"}, nil))
	if len(made.Snapshots) != 1 || made.Snapshots[0].ID == "" || !made.Snapshots[0].IsReady {
		t.Fatalf("snapshot: %+v", made)
	}
	id := made.Snapshots[0].ID
	has := func() bool {
		list := ok[*api.CSISnapshotListResponse](t)(volumes.ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: "hp"}))
		return slices.ContainsFunc(list.Snapshots, func(s *api.CSISnapshot) bool { return s.ID == id })
	}
	if !has() {
		t.Error("the snapshot is not listed")
	}
	if err := volumes.DeleteSnapshot(&api.CSISnapshot{ID: id, PluginID: "hp"}, nil); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the deleted snapshot is listed")
	}
}

func walkCluster(t *testing.T, a *kit.Agent) {
	self, err := a.API.Agent().Self()
	if err != nil || self.Member.Name == "" || self.Stats["nomad"]["leader"] != "true" || self.Config["Region"] != "global" {
		t.Errorf("self: %+v, %v", self, err)
	}
	members, err := a.API.Agent().Members()
	if err != nil || len(members.Members) != 1 || members.Members[0].Status != "alive" || members.ServerRegion != "global" {
		t.Errorf("members: %+v, %v", members, err)
	}
	if h, err := a.API.Agent().Health(); err != nil || !h.Server.Ok || !h.Client.Ok {
		t.Errorf("health: %+v, %v", h, err)
	}
	leader, err := a.API.Status().Leader()
	if peers, e := a.API.Status().Peers(); err != nil || e != nil || !slices.Equal(peers, []string{leader}) {
		t.Errorf("leader %q, peers %v, %v, %v", leader, peers, err, e)
	}
	if regions, err := a.API.Regions().List(); err != nil || !slices.Equal(regions, []string{"global"}) {
		t.Errorf("regions: %v, %v", regions, err)
	}
	if err := a.API.System().GarbageCollect(); err != nil {
		t.Error(err)
	}
	if _, err := a.API.Namespaces().Register(&api.Namespace{Name: "team", Description: "d", Meta: map[string]string{"k": "v"}}, nil); err != nil {
		t.Fatal(err)
	}
	if n := ok[*api.Namespace](t)(a.API.Namespaces().Info("team", nil)); n.Description != "d" || n.Meta["k"] != "v" {
		t.Errorf("namespace: %+v", n)
	}
	if list := ok[[]*api.Namespace](t)(a.API.Namespaces().List(nil)); len(list) != 2 {
		t.Errorf("namespaces: %+v", list)
	}
	if _, err := a.API.Namespaces().Delete("team", nil); err != nil {
		t.Error(err)
	}
	_, _, err = a.API.Namespaces().Info("team", nil)
	refused(t, err, 404, "")
	if _, err := a.API.NodePools().Register(&api.NodePool{Name: "gpu", Description: "d"}, nil); err != nil {
		t.Fatal(err)
	}
	if p := ok[*api.NodePool](t)(a.API.NodePools().Info("gpu", nil)); p.Description != "d" {
		t.Errorf("pool: %+v", p)
	}
	if nodes := ok[[]*api.NodeListStub](t)(a.API.NodePools().ListNodes("default", nil)); len(nodes) != 1 {
		t.Errorf("nodes of the pool: %+v", nodes)
	}
	if _, err := a.API.NodePools().Delete("gpu", nil); err != nil {
		t.Error(err)
	}
	conf := ok[*api.SchedulerConfigurationResponse](t)(a.API.Operator().SchedulerGetConfiguration(nil)).SchedulerConfig
	conf.SchedulerAlgorithm = "spread"
	if set := wrote[*api.SchedulerSetConfigurationResponse](t)(a.API.Operator().SchedulerSetConfiguration(conf, nil)); !set.Updated {
		t.Errorf("set: %+v", set)
	}
	conf = ok[*api.SchedulerConfigurationResponse](t)(a.API.Operator().SchedulerGetConfiguration(nil)).SchedulerConfig
	if conf.SchedulerAlgorithm != "spread" {
		t.Errorf("configuration: %+v", conf)
	}
	conf.ModifyIndex--
	if set := wrote[*api.SchedulerSetConfigurationResponse](t)(a.API.Operator().SchedulerCASConfiguration(conf, nil)); set.Updated {
		t.Error("an old configuration was taken")
	}
}

func walkSearch(t *testing.T, a *kit.Agent) {
	found := ok[*api.SearchResponse](t)(a.API.Search().PrefixSearch("we", contexts.Jobs, nil))
	if !slices.Equal(found.Matches[contexts.Jobs], []string{"web"}) {
		t.Errorf("jobs: %+v", found)
	}
	stub := a.Running("web", 1)
	found = ok[*api.SearchResponse](t)(a.API.Search().PrefixSearch(stub.ID[:8], contexts.All, nil))
	if !slices.Contains(found.Matches[contexts.Allocs], stub.ID) {
		t.Errorf("all: %+v", found)
	}
	if found = ok[*api.SearchResponse](t)(a.API.Search().PrefixSearch("v", contexts.Volumes, nil)); !slices.Contains(found.Matches[contexts.Volumes], "v1") {
		t.Errorf("volumes: %+v", found)
	}
}

func walkBlocking(t *testing.T, a *kit.Agent) {
	_, meta, err := a.API.Jobs().List(nil)
	if err != nil || meta.LastIndex == 0 || !meta.KnownLeader {
		t.Fatalf("%+v, %v", meta, err)
	}
	woken := make(chan error, 1)
	go func() {
		// Other writes may wake it first: ask again as tools do.
		for index := meta.LastIndex; ; {
			list, m, err := a.API.Jobs().List(&api.QueryOptions{WaitIndex: index, WaitTime: 30 * time.Second})
			if err != nil || slices.ContainsFunc(list, func(j *api.JobListStub) bool { return j.ID == "waker" }) {
				woken <- err
				return
			}
			if m.LastIndex < index {
				woken <- fmt.Errorf("the index went from %d to %d", index, m.LastIndex)
				return
			}
			index = m.LastIndex
		}
	}()
	a.Register(kit.ShellJob("waker", "sleep 1000"))
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("nothing woke the reader")
	}
	a.Stop("waker", true)
	_, meta, _ = a.API.NodePools().List(nil)
	began := time.Now()
	if _, _, err := a.API.NodePools().List(&api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 100 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d < 100*time.Millisecond || d > 30*time.Second {
		t.Errorf("a wait of 100ms took %v", d)
	}
}

func walkErrors(t *testing.T, a *kit.Agent) {
	none := "00000000-0000-0000-0000-000000000000"
	_, _, err := a.API.Allocations().Info(none, nil)
	refused(t, err, 404, "alloc not found")
	_, _, err = a.API.Nodes().Info(none, nil)
	refused(t, err, 404, "node not found")
	_, _, err = a.API.Evaluations().Info(none, nil)
	refused(t, err, 404, "eval not found")
	_, _, err = a.API.Jobs().List(&api.QueryOptions{Filter: "nonsense"})
	refused(t, err, 400, "filter")
	_, _, err = a.API.Jobs().List(&api.QueryOptions{Region: "mars"})
	refused(t, err, 400, "No path to region")
	_, err = a.API.Jobs().ParseHCL("job {", true)
	refused(t, err, 400, "")
	send := func(body io.Reader) int {
		t.Helper()
		r, err := http.Post(a.API.Address()+"/v1/jobs", "application/json", body)
		if err != nil {
			return http.StatusRequestEntityTooLarge // the connection was closed while the body went out
		}
		defer r.Body.Close()
		return r.StatusCode
	}
	before := a.MemoryKB(a.PID(), "Rss")
	for range 3 {
		if code := send(bytes.NewReader(slices.Concat([]byte(`{"Job":{"ID":"`), bytes.Repeat([]byte("x"), 32<<20), []byte(`"}}`)))); code != 413 {
			t.Errorf("a body of 32 MiB: %d", code)
		}
		if code := send(strings.NewReader(`{"Job":{"Meta":` + strings.Repeat(`{"a":`, 200000) + "1" + strings.Repeat("}", 200000) + "}}")); code != 400 {
			t.Errorf("a deep body: %d", code)
		}
	}
	if after := a.MemoryKB(a.PID(), "Rss"); after > before+24<<10 {
		t.Errorf("the agent grew from %d to %d KiB", before, after)
	}
}

func walkNodes(t *testing.T, a *kit.Agent) {
	nodes := a.API.Nodes()
	id := ok[[]*api.NodeListStub](t)(nodes.List(nil))[0].ID
	n := ok[*api.Node](t)(nodes.Info(id, nil))
	if n.Status != "ready" || !n.Drivers["raw_exec"].Healthy || n.NodeResources.Memory.MemoryMB == 0 || !n.CSINodePlugins["hp"].Healthy {
		t.Errorf("node: %+v", n)
	}
	for _, alloc := range ok[[]*api.Allocation](t)(nodes.Allocations(id, nil)) {
		if alloc.Resources == nil || alloc.Resources.CPU == nil {
			t.Errorf("allocation %s of %s has no resources", alloc.ID, alloc.JobID)
		}
	}
	if list, err := nodes.CSIVolumes(id, nil); err != nil || len(list) != 1 || list[0].ID != "v1" {
		t.Errorf("volumes: %+v, %v", list, err)
	}
	if s, err := nodes.Stats(id, nil); err != nil || s.Memory.Total == 0 || len(s.CPU) == 0 || s.Uptime == 0 {
		t.Errorf("statistics: %+v, %v", s, err)
	}
	for _, eligible := range []bool{false, true} {
		if _, err := nodes.ToggleEligibility(id, eligible, nil); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "eligible", false: "ineligible"}[eligible]
		if n := ok[*api.Node](t)(nodes.Info(id, nil)); n.SchedulingEligibility != want {
			t.Errorf("eligibility %q, want %q", n.SchedulingEligibility, want)
		}
	}
	if _, err := nodes.UpdateDrain(id, &api.DrainSpec{Deadline: time.Minute, IgnoreSystemJobs: true}, false, nil); err != nil {
		t.Fatal(err)
	}
	a.Until(30*time.Second, "the drain", func() error {
		if n := len(a.Allocs("web", "running")); n != 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	a.Free("v1")
	if _, err := nodes.UpdateDrain(id, nil, true, nil); err != nil {
		t.Fatal(err)
	}
	a.Running("web", 1)
	a.Stop("web", false)
	a.Free("v1")
	for _, s := range a.Allocs("web", "complete") {
		if err := nodes.GcAlloc(s.ID, nil); err != nil {
			t.Errorf("gc of %s: %v", s.ID, err)
		}
	}
	if err := nodes.GC(id, nil); err != nil {
		t.Error(err)
	}
}
