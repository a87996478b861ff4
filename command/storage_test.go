package command_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

const holder = "9f6d9b6e-0c3e-4ad2-8ca0-1f5f0e0d3a11"

func attachmentsAgent(t *testing.T) *agent {
	return newAgent(t, map[string]any{
		"GET /v1/nodes": []*api.NodeStub{{ID: holder, Name: "node-1"}},
		"GET /v1/volumes/attachments": []*api.AttachmentStub{
			{PluginID: "p", ExternalID: "x1", NodeID: holder, NodeName: "node-1", Namespace: "default", VolumeID: "data", State: "unpublishing", Since: time.Now().Add(-3 * time.Hour).UnixNano(), LastError: "INTERNAL:\nstack of the driver\x1b[2J", Remedy: "nomad volume detach -force data " + holder},
			{PluginID: "p", ExternalID: "x2", NodeID: "gone", State: "stale mount", AllocID: "a1", Remedy: "nomad volume detach -force -plugin p -external-id x2 gone"},
		},
		"GET /v1/volumes":                   []*api.VolumeStub{{ID: "data", Namespace: "default"}},
		"GET /v1/volume/csi/data":           &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}},
		"DELETE /v1/volume/csi/data/detach": map[string]any{},
		"DELETE /v1/volumes/attachments":    map[string]any{},
		"GET /v1/plugins":                   []*api.PluginStub{{ID: "p"}, {ID: "q"}},
		"GET /v1/volumes/external":          []any{&api.VolumeListExternalResponse{Volumes: []*api.VolumeExternal{{ExternalID: "orphan", CapacityBytes: 1 << 20}}, NextToken: "2"}, &api.VolumeListExternalResponse{Volumes: []*api.VolumeExternal{{ExternalID: "sick", IsAbnormal: true, Status: "bad\nvery bad"}}}, &refusal{500, "q cannot list"}},
	})
}

func (a *agent) query(t *testing.T, key string) url.Values {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, asked := range a.asked {
		if rest, ok := strings.CutPrefix(asked, key+"?"); ok {
			q, err := url.ParseQuery(rest)
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
	}
	t.Fatalf("%s was not asked: %v", key, a.asked)
	return nil
}

func TestAttachmentsAreListedWithTheirRemedies(t *testing.T) {
	a := attachmentsAgent(t)
	out := run(t, a, "", "volume", "attachments", "-node", holder[:8], "-plugin", "p")
	out.want(t, 0, "node-1", "data", "x2 (not registered)", "stale mount", "3h ago", "INTERNAL: ...", "nomad volume detach -force -plugin p -external-id x2 gone")
	if strings.Contains(out.out, "stack of the driver") || strings.Contains(out.out, "\x1b") || strings.Count(out.out, "\n") != 3 {
		t.Errorf("the table is not one line per row: %q", out.out)
	}
	if q := a.query(t, "GET /v1/volumes/attachments"); q.Get("node_id") != holder || q.Get("plugin_id") != "p" {
		t.Errorf("asked for %v", q)
	}
	out = run(t, a, "", "volume", "attachments", "-verbose")
	out.want(t, 0, holder, "Text of data on node "+holder+"\n  INTERNAL:\n  stack of the driver\\u001b[2J\n")
	run(t, a, "", "volume", "attachments", "-json").want(t, 0, `"ExternalID": "x1"`)
}

func TestDetachTakesAReasonAndVolumesThatAreNotRegistered(t *testing.T) {
	a := attachmentsAgent(t)
	run(t, a, "", "volume", "detach", "-force", "-reason", "it is off", "data", holder[:8]).want(t, 0, `Volume "data" detached`)
	if q := a.query(t, "DELETE /v1/volume/csi/data/detach"); q.Get("node") != holder || q.Get("force") != "true" || q.Get("reason") != "it is off" {
		t.Errorf("asked for %v", q)
	}
	run(t, a, "", "volume", "detach", "-force", "-plugin", "p", "-external-id", "x2", "gone").want(t, 0, `External volume "x2" detached from node "gone"`)
	if q := a.query(t, "DELETE /v1/volumes/attachments"); q.Get("node") != "gone" || q.Get("plugin_id") != "p" || q.Get("external_id") != "x2" || q.Get("force") != "true" {
		t.Errorf("asked for %v", q)
	}
	run(t, a, "", "volume", "detach", "-reason", "x", "data", holder).want(t, 1, "-force")
	run(t, a, "", "volume", "detach", "-plugin", "p", "gone").want(t, 1, "-external-id")
	run(t, a, "", "volume", "detach", "-plugin", "p", "-external-id", "x", "data", "gone").want(t, 1, "only argument")
	run(t, a, "", "volume", "detach", "data").want(t, 1, "2 arguments")
}

func TestVolumesOfProvidersAreListed(t *testing.T) {
	a := attachmentsAgent(t)
	out := run(t, a, "", "volume", "status", "-verbose")
	out.want(t, 0, `External Volumes of Plugin "p"`, "orphan", "1.0 MiB", "sick", "Abnormal (bad ...)", `External Volumes of Plugin "q"`, "They cannot be listed: ", "q cannot list")
	if out := run(t, a, "", "volume", "status"); strings.Contains(out.out, "External Volumes") {
		t.Errorf("they are shown always: %s", out.out)
	}
}

func TestVolumesOfAProviderThatAreLeftOutAreToldOf(t *testing.T) {
	for token, says := range map[string]string{"again": "the same page twice", "": "more than 10000"} {
		var pages []any
		for i := range 30 {
			page := &api.VolumeListExternalResponse{NextToken: token}
			if page.NextToken == "" {
				page.NextToken = fmt.Sprint("page", i)
			}
			for n := range 500 {
				page.Volumes = append(page.Volumes, &api.VolumeExternal{ExternalID: fmt.Sprintf("v%d-%d", i, n)})
			}
			pages = append(pages, page)
		}
		a := newAgent(t, map[string]any{"GET /v1/volumes": []*api.VolumeStub{}, "GET /v1/plugins": []*api.PluginStub{{ID: "p"}}, "GET /v1/volumes/external": pages})
		run(t, a, "", "volume", "status", "-verbose").want(t, 0, "v0-0", "Not all are listed: ", says)
	}
}

func TestVolumesOfANodeAreFoundByAPrefixOfItsID(t *testing.T) {
	a := attachmentsAgent(t)
	run(t, a, "", "volume", "status", "-node", holder[:8]).want(t, 0, "data")
	if q := a.query(t, "GET /v1/volumes"); q.Get("node_id") != holder {
		t.Errorf("asked for %v", q)
	}
}

func TestQuestionWithoutAnAnswerFails(t *testing.T) {
	a := attachmentsAgent(t)
	a.answers["DELETE /v1/volume/csi/data"] = map[string]any{}
	run(t, a, "", "volume", "deregister", "-force", "data").want(t, 1, "no confirmation")
	run(t, a, "n\n", "volume", "deregister", "-force", "data").want(t, 0, "Cancelling")
	run(t, a, "\n", "volume", "deregister", "-force", "data").want(t, 0, "Cancelling")
	run(t, a, "y", "volume", "deregister", "-force", "data").want(t, 0, "Successfully deregistered")
}

func TestDriverErrorsOfSeveralLinesAreOneInTables(t *testing.T) {
	const text = "rpc failed:\nline two\nline three"
	v := &api.VolumeDetail{
		Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}, State: api.VolumeFailed, LastError: text,
		Claims:      []*api.VolumeClaim{{AllocID: "a1", NodeID: "n1", JobID: "j", State: api.ClaimReleasing, LastError: text}},
		Attachments: []*api.VolumeAttachment{{NodeID: "n1", State: api.AttachmentUnpublishing, LastError: text}},
	}
	p := &api.Plugin{ID: "p", Nodes: map[string]*api.CSIInfo{"n1": {HealthDescription: text}}}
	n := &api.Node{ID: holder, StaleMounts: []*api.StaleMount{{VolumeID: "data", LastError: text}}, Events: []*api.NodeEvent{{Message: text}}}
	a := newAgent(t, map[string]any{
		"GET /v1/volumes": []*api.VolumeStub{{ID: "data", Namespace: "default"}}, "GET /v1/volume/csi/data": v,
		"GET /v1/plugins": []*api.PluginStub{{ID: "p"}}, "GET /v1/plugin/csi/p": p,
		"GET /v1/nodes": []*api.NodeStub{{ID: holder}}, "GET /v1/node/" + holder: n, "GET /v1/node/" + holder + "/allocations": []*api.Allocation{},
	})
	for _, args := range [][]string{{"volume", "status", "data"}, {"plugin", "status", "p"}, {"node", "status", holder}} {
		out := run(t, a, "", args...)
		out.want(t, 0, "rpc failed: ...")
		if strings.Contains(out.out, "line two") {
			t.Errorf("%v shows more than one line: %s", args, out.out)
		}
		run(t, a, "", append(args, "-verbose")...).want(t, 0, "line two", "line three")
	}
}

func TestVolumesOfANodeHaveTheNamesOfTheirGroups(t *testing.T) {
	job := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Volumes: map[string]*api.VolumeRequest{
		"files": {Name: "files", Type: "csi", Source: "data", PerAlloc: true},
	}}}}
	a := newAgent(t, map[string]any{
		"GET /v1/nodes": []*api.NodeStub{{ID: holder}}, "GET /v1/node/" + holder: &api.Node{ID: holder},
		"GET /v1/node/" + holder + "/allocations": []*api.Allocation{{ID: "a1", Name: "j.g[2]", Namespace: "default", Job: job, TaskGroup: "g", ClientStatus: "running"}},
		"GET /v1/volumes": []*api.VolumeStub{
			{ID: "data[2]", Name: "a name", Namespace: "default", PluginID: "p", Provider: "prov", Schedulable: true, AccessMode: "single-node-writer"},
			{ID: "left", Name: "a left one", Namespace: "default", PluginID: "p"},
		},
	})
	out := run(t, a, "", "node", "status", holder)
	squeezed := strings.Join(strings.Fields(out.out), " ")
	for _, want := range []string{
		"ID Name Namespace Plugin ID Schedulable Provider Access Mode", "data[2] files default p true prov single-node-writer", "left a left one default p false <none> <none>",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("no %q in %s", want, out.out)
		}
	}
}

func TestMountOptionsOfVolumeAndRequestAreShownTogether(t *testing.T) {
	job := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{
		Name: "g", Tasks: []*api.Task{{Name: "t", VolumeMounts: []*api.VolumeMount{{Volume: "files", Destination: "/data"}}}},
		Volumes: map[string]*api.VolumeRequest{"files": {Name: "files", Type: "csi", Source: "data", MountOptions: &api.MountOptions{MountFlags: []string{"noatime"}}}},
	}}}
	alloc := &api.Allocation{ID: holder, Name: "j.g[0]", Namespace: "default", Job: job, TaskGroup: "g", ClientStatus: "running"}
	a := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: holder, Namespace: "default"}}, "GET /v1/allocation/" + holder: alloc,
		"GET /v1/volume/csi/data": &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data", MountOptions: &api.MountOptions{FSType: "xfs"}}}},
	})
	run(t, a, "", "alloc", "status", "-verbose", holder).want(t, 0, "fs_type: xfs flags: noatime")
}

func TestVolumeStatusShowsLeaseAndWriteBack(t *testing.T) {
	v := &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data", Fence: api.FenceBoth, Lease: time.Minute, WriteBack: 2 * time.Second}}, SlowestWriteBack: 3210 * time.Millisecond}
	a := newAgent(t, map[string]any{"GET /v1/volumes": []*api.VolumeStub{{ID: "data", Namespace: "default"}}, "GET /v1/volume/csi/data": v})
	out := run(t, a, "", "volume", "status", "-verbose", "data")
	squeezed := strings.Join(strings.Fields(out.out), " ")
	for _, want := range []string{"Fence = both", "Lease = 1m0s", "Write Back = 2s, slowest measured 3.2s (longer: "} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("no %q in %s", want, out.out)
		}
	}
}

func TestStatusSaysWhichFenceIsRight(t *testing.T) {
	instances := func(attaches bool) map[string]*api.CSIInfo {
		return map[string]*api.CSIInfo{"n1": {Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: attaches}}}
	}
	for want, p := range map[string]*api.Plugin{
		"Fence                = storage: ": {ID: "p", Controllers: instances(true)},
		"Fence                = lease: ":   {ID: "p", Controllers: instances(false)},
		"Fence                = unknown: ": {ID: "p", ControllerRequired: true},
	} {
		a := newAgent(t, map[string]any{"GET /v1/plugins": []*api.PluginStub{{ID: "p"}}, "GET /v1/plugin/csi/p": p})
		run(t, a, "", "plugin", "status", "p").want(t, 0, want)
	}
	v := &api.VolumeDetail{
		Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}, ControllerRequired: true,
		NotValidated: "it depends", NodeExpansion: []string{"n1", "n2"},
	}
	a := newAgent(t, map[string]any{"GET /v1/volumes": []*api.VolumeStub{{ID: "data", Namespace: "default"}}, "GET /v1/volume/csi/data": v})
	run(t, a, "", "volume", "status", "data").want(t, 0, "it depends")
	run(t, a, "", "volume", "status", "-verbose", "data").want(t, 0, "storage (default: the driver attaches)", "n1, n2")
}

// Two rows of one machine have one name.
func TestAttachmentsOfNodesWithOneNameAreToldApart(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/volumes/attachments": []*api.AttachmentStub{
		{PluginID: "p", ExternalID: "x1", NodeID: "aaaaaaaa-1", NodeName: "web"},
		{PluginID: "p", ExternalID: "x1", NodeID: "bbbbbbbb-2", NodeName: "web"},
		{PluginID: "p", ExternalID: "x2", NodeID: "cccccccc-3", NodeName: "db"},
		{PluginID: "p", ExternalID: "x3", NodeID: "cccccccc-3", NodeName: "db"},
	}})
	out := run(t, a, "", "volume", "attachments")
	out.want(t, 0, "web (aaaaaaaa)", "web (bbbbbbbb)", "db")
	if strings.Contains(out.out, "cccc") {
		t.Errorf("a name that is of one node has its id: %s", out.out)
	}
}

func TestSnapshotsUnderWayAreListed(t *testing.T) {
	under := []*api.SnapshotUnderWay{{Name: "nightly", State: "being made", LastError: "away\nfor long", Remedy: "nomad volume snapshot delete p nightly"}}
	a := newAgent(t, map[string]any{
		"GET /v1/plugins": []*api.PluginStub{{ID: "p"}}, "GET /v1/volumes/snapshot": &api.SnapshotListResponse{UnderWay: under},
		"GET /v1/volumes":         []*api.VolumeStub{{ID: "data", Namespace: "default"}},
		"GET /v1/volume/csi/data": &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}, Snapshots: under},
	})
	for _, command := range [][]string{{"volume", "snapshot", "list", "-plugin", "p"}, {"volume", "status", "data"}} {
		run(t, a, "", command...).want(t, 0, "Snapshots Under Way", "nightly", "being made", "away ...", "nomad volume snapshot delete p nightly")
	}
}

// Ids are what commands on nodes take. Who types the name that tables show is told the id.
func TestNameOfANodeForItsIDIsExplained(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/nodes": []*api.NodeStub{{ID: "e5-a", Name: "web1"}, {ID: "e6-b", Name: "web2"}}})
	for _, command := range [][]string{{"node", "status", "web2"}, {"node", "eligibility", "-disable", "web2"}, {"node", "drain", "-enable", "-yes", "web2"}} {
		run(t, a, "", command...).want(t, 1, `"web2"`, "it is the name of node e6-b: give the ID")
	}
	run(t, a, "", "node", "status", "web3").want(t, 1, `No node with prefix or ID "web3" found`)
}

func TestPreemptingAllocationSaysWhatItWaitsFor(t *testing.T) {
	status := func(client string) *agent {
		a := &api.Allocation{ID: "a1111111-0000", Namespace: "default", JobID: "web", TaskGroup: "g", ClientStatus: client, PreemptedAllocations: []string{"p1111111-0000", "p2222222-0000"}}
		return newAgent(t, map[string]any{
			"GET /v1/allocations": []*api.AllocStub{{ID: a.ID, Namespace: "default"}}, "GET /v1/allocation/a1111111-0000": a,
			"GET /v1/allocation/p1111111-0000": &api.Allocation{ID: "p1111111-0000", JobID: "low", ClientStatus: "running", DesiredStatus: "evict"},
			"GET /v1/allocation/p2222222-0000": &api.Allocation{ID: "p2222222-0000", JobID: "low", ClientStatus: "complete", DesiredStatus: "evict"},
		})
	}
	run(t, status("pending"), "", "alloc", "status", "a1").want(t, 0,
		"* p1111111 of job low (running): this allocation starts when it has stopped\n* p2222222\n")
	run(t, status("running"), "", "alloc", "status", "a1").want(t, 0, "Preempted Allocations\n* p1111111\n* p2222222\n")
}
