package csi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

const (
	canCreate        = pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
	canList          = pb.ControllerServiceCapability_RPC_LIST_VOLUMES
	canGrow          = pb.ControllerServiceCapability_RPC_EXPAND_VOLUME
	canGet           = pb.ControllerServiceCapability_RPC_GET_VOLUME
	canListPublished = pb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES
)

type can = []pb.ControllerServiceCapability_RPC_Type

func zone(z string) *api.Topology { return &api.Topology{Segments: map[string]string{"zone": z}} }

func TestPreferredTopologiesAreAmongTheRequired(t *testing.T) {
	var sent *pb.TopologyRequirement
	cl := serve(t, &plugin{can: can{canCreate}, create: func(r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
		sent = r.GetAccessibilityRequirements()
		return &pb.CreateVolumeResponse{Volume: &pb.Volume{VolumeId: "x"}}, nil
	}})
	for _, c := range []struct {
		required, preferred []*api.Topology
		ok                  bool
	}{
		{[]*api.Topology{zone("a")}, []*api.Topology{zone("b")}, false},
		{[]*api.Topology{zone("a"), zone("b")}, []*api.Topology{zone("b")}, true},
		{nil, []*api.Topology{zone("b")}, true},
		{[]*api.Topology{zone("a")}, []*api.Topology{{}, nil}, true},
	} {
		sent = nil
		r := creation("v")
		r.Topologies = &api.TopologyRequest{Required: c.required, Preferred: c.preferred}
		_, err := cl.CreateVolume(t.Context(), r)
		if (err == nil) != c.ok || (sent != nil) != c.ok {
			t.Errorf("required %v, preferred %v: %v, sent %v", c.required, c.preferred, err, sent)
		}
		if !c.ok && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "zone:b")) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestWhatIsNotConfirmedIsNotValidated(t *testing.T) {
	mode := func(m pb.VolumeCapability_AccessMode_Mode) []*pb.VolumeCapability {
		return []*pb.VolumeCapability{{AccessMode: &pb.VolumeCapability_AccessMode{Mode: m}}}
	}
	confirm := func(list []*pb.VolumeCapability) *pb.ValidateVolumeCapabilitiesResponse {
		return &pb.ValidateVolumeCapabilitiesResponse{Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: list}}
	}
	for name, c := range map[string]struct {
		reply     *pb.ValidateVolumeCapabilitiesResponse
		validated bool
		refused   bool
	}{
		"nothing":             {&pb.ValidateVolumeCapabilitiesResponse{}, false, false},
		"an empty confirm":    {confirm(nil), false, false},
		"a reason":            {&pb.ValidateVolumeCapabilitiesResponse{Message: "no such mode"}, false, true},
		"another mode":        {confirm(mode(pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)), false, true},
		"the mode alone":      {confirm(mode(pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)), true, false},
		"a mode left out":     {confirm(mode(pb.VolumeCapability_AccessMode_UNKNOWN)), true, false},
		"a block device":      {confirm([]*pb.VolumeCapability{{AccessType: &pb.VolumeCapability_Block{}, AccessMode: &pb.VolumeCapability_AccessMode{Mode: 1}}}), false, true},
		"null in the confirm": {confirm([]*pb.VolumeCapability{nil}), true, false},
	} {
		cl := serve(t, &plugin{validate: func() (*pb.ValidateVolumeCapabilitiesResponse, error) { return c.reply, nil }})
		got, err := cl.Validate(t.Context(), &api.ControllerValidateRequest{ExternalID: "v", Capabilities: creation("v").Capabilities})
		if (err != nil) != c.refused || err == nil && got.Validated != c.validated {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err == nil && !got.Validated && got.Message == "" {
			t.Errorf("%s: no message", name)
		}
	}
}

func entries(n int, size int) []*pb.ListVolumesResponse_Entry {
	var out []*pb.ListVolumesResponse_Entry
	for i := range n {
		out = append(out, &pb.ListVolumesResponse_Entry{Volume: &pb.Volume{
			VolumeId: fmt.Sprintf("%0128d", i), VolumeContext: map[string]string{"k": strings.Repeat("c", size-1)},
		}})
	}
	return out
}

func TestLargestPageFits(t *testing.T) {
	cl := serve(t, &plugin{can: can{canList}, list: func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
		return &pb.ListVolumesResponse{Entries: entries(1000, 4<<10)}, nil
	}})
	got, err := cl.ListVolumes(t.Context(), &api.ControllerListRequest{MaxEntries: 1000})
	if err != nil || len(got.Volumes) != 1000 {
		t.Errorf("%d entries: %v", len(got.Volumes), err)
	}
}

func TestPageThatDoesNotFitIsAskedForInParts(t *testing.T) {
	var asked []int32
	cl := serve(t, &plugin{can: can{canList}, list: func(r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
		asked = append(asked, r.GetMaxEntries())
		n := 8
		if m := int(r.GetMaxEntries()); m > 0 {
			n = min(n, m)
		}
		return &pb.ListVolumesResponse{Entries: entries(n, 5<<20), NextToken: "next"}, nil
	}})
	for _, most := range []int32{16, 0} {
		asked = nil
		got, err := cl.ListVolumes(t.Context(), &api.ControllerListRequest{MaxEntries: most})
		if err != nil || len(got.Volumes) == 0 || len(got.Volumes) > 6 || got.NextToken != "next" {
			t.Errorf("%d asked as %v: %d entries: %v", most, asked, len(got.Volumes), err)
		}
	}
	_, err := serve(t, &plugin{can: can{canList}, list: func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
		return &pb.ListVolumesResponse{Entries: entries(1, 33<<20)}, nil
	}}).ListVolumes(t.Context(), &api.ControllerListRequest{MaxEntries: 1})
	if csi.VerdictOf(err) != fault.VerdictFinal {
		t.Errorf("one entry that is too large: %v", err)
	}
}

func TestEntriesBeyondThePageAreKept(t *testing.T) {
	cl := serve(t, &plugin{can: can{canList}, list: func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
		return &pb.ListVolumesResponse{Entries: entries(5, 10), NextToken: "5"}, nil
	}})
	got, err := cl.ListVolumes(t.Context(), &api.ControllerListRequest{MaxEntries: 2})
	if err != nil || len(got.Volumes) != 5 || got.NextToken != "5" {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestTooLargeReplyOfAChangeIsUncertain(t *testing.T) {
	cl := serve(t, &plugin{can: can{canCreate}, create: func(*pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
		return &pb.CreateVolumeResponse{Volume: &pb.Volume{VolumeId: strings.Repeat("x", 5<<20)}}, nil
	}})
	var said *fault.Call
	if _, err := cl.CreateVolume(t.Context(), creation("v")); !errors.As(err, &said) || !said.Uncertain || said.Verdict != fault.VerdictUncertain {
		t.Errorf("the error is %v", err)
	}
}

func TestExpansionToLessThanAskedIsNoSuccess(t *testing.T) {
	for bytes, ok := range map[int64]bool{0: false, -1: false, 299: false, 300: true, 1000: true} {
		cl := serve(t, &plugin{can: can{canGrow}, grow: func() (*pb.ControllerExpandVolumeResponse, error) {
			return &pb.ControllerExpandVolumeResponse{CapacityBytes: bytes}, nil
		}})
		_, err := cl.ControllerExpand(t.Context(), &api.ControllerExpandRequest{ExternalID: "v", CapacityMinBytes: 300})
		var said *fault.Call
		if (err == nil) != ok || err != nil && (!errors.As(err, &said) || !said.Uncertain) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

func TestNodeExpandsWithoutAController(t *testing.T) {
	d := fake.New(fake.Config{NoExpand: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	caps, err := cl.Fingerprint(t.Context(), csi.Services{Controller: true, Node: true})
	if err != nil || caps.Controller.SupportsExpand || !caps.Node.SupportsExpand {
		t.Fatalf("%+v, %v", caps, err)
	}
	v := volume("v")
	v.Secrets = map[string]string{"key": "for expansion"}
	if size, err := cl.NodeExpand(t.Context(), v, 5<<20); err != nil || size != 5<<20 {
		t.Errorf("%d bytes: %v", size, err)
	}
	if got := lastRequest[*pb.NodeExpandVolumeRequest](t, d, "NodeExpandVolume").GetSecrets(); got["key"] == "" {
		t.Error("expanded without secrets")
	}
}

func TestSnapshotOfAGroupIsNotDeletedAlone(t *testing.T) {
	for _, offers := range []fake.Config{{}, {GetSnapshot: true}, {NoLists: true}} {
		d := fake.New(offers)
		d.Storage().Add("v")
		cl := dial(t, d, csi.Timeouts{})
		s, err := cl.CreateSnapshot(t.Context(), &api.ControllerSnapshotRequest{ExternalID: "v", Name: "s"})
		if err != nil {
			t.Fatal(err)
		}
		d.Storage().Group(s.ID, "g")
		err = cl.DeleteSnapshot(t.Context(), &api.ControllerSnapshotDeleteRequest{ID: s.ID})
		if known := !offers.NoLists; (len(d.Calls("DeleteSnapshot")) == 0) != known || err == nil || known && !errors.Is(err, fault.Conflict) {
			t.Errorf("%+v: %d calls, %v", offers, len(d.Calls("DeleteSnapshot")), err)
		}
		if len(d.Storage().Snapshots()) != 1 {
			t.Error("deleted")
		}
	}
}

func TestSnapshotsAreListedByIDAndSource(t *testing.T) {
	d := fake.New(fake.Config{})
	cl := dial(t, d, csi.Timeouts{})
	for _, v := range []string{"v", "w"} {
		d.Storage().Add(v)
		if _, err := cl.CreateSnapshot(t.Context(), &api.ControllerSnapshotRequest{ExternalID: v, Name: "of " + v}); err != nil {
			t.Fatal(err)
		}
	}
	all := d.Storage().Snapshots()
	for _, r := range []*api.ControllerSnapshotListRequest{{ID: all[1]}, {SourceID: "w"}} {
		got, err := cl.ListSnapshots(t.Context(), r)
		if err != nil || len(got.Snapshots) != 1 || got.Snapshots[0].ID != all[1] {
			t.Errorf("%+v: %+v, %v", r, got, err)
		}
	}
}

func TestVerifyUsesTheBestCallThatIsOffered(t *testing.T) {
	for _, c := range []struct {
		name     string
		offers   fake.Config
		by       string
		attached bool
	}{
		{"get with nodes", fake.Config{GetVolume: true, ListPublished: true}, "ControllerGetVolume", true},
		{"get", fake.Config{GetVolume: true}, "ControllerGetVolume", false},
		{"list with nodes", fake.Config{ListPublished: true}, "ListVolumes", true},
		{"list", fake.Config{}, "ListVolumes", false},
		{"validate", fake.Config{NoLists: true}, "ValidateVolumeCapabilities", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.offers.Attach = true
			d := fake.New(c.offers)
			d.Storage().Add("v")
			cl := dial(t, d, csi.Timeouts{})
			verify := func(id, node string) *api.ControllerVerifyResponse {
				t.Helper()
				got, err := cl.Verify(t.Context(), &api.ControllerVerifyRequest{ExternalID: id, ProviderNodeID: node})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if err := everyKindOfCall(cl, "/t")["ControllerPublish"].call(t.Context()); err != nil {
				t.Fatal(err)
			}
			here, there := api.KnownNothing, api.KnownNothing
			if c.attached {
				here, there = api.KnownYes, api.KnownNo
			}
			for node, attached := range map[string]string{"fake-node": here, "other": there, "": api.KnownNothing} {
				if got := verify("v", node); got.Exists != api.KnownYes || got.Attached != attached || got.By != c.by {
					t.Errorf("node %q: %+v", node, got)
				}
			}
			if got := verify("missing", "fake-node"); got.Exists != api.KnownNo || got.Attached != api.KnownNo {
				t.Errorf("a missing volume: %+v", got)
			}
			if got := verify("", "fake-node"); got.Exists != api.KnownNothing {
				t.Errorf("without an id: %+v", got)
			}
		})
	}
}

func TestListThatLacksAVolumeIsNoProof(t *testing.T) {
	cl := serve(t, &plugin{
		can:  can{canList, canListPublished},
		list: func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) { return &pb.ListVolumesResponse{}, nil },
		validate: func() (*pb.ValidateVolumeCapabilitiesResponse, error) {
			return &pb.ValidateVolumeCapabilitiesResponse{Message: "it is there, with another mode"}, nil
		},
	})
	got, err := cl.Verify(t.Context(), &api.ControllerVerifyRequest{ExternalID: "v", ProviderNodeID: "n"})
	if err != nil || got.Exists != api.KnownYes || got.Attached != api.KnownNothing {
		t.Errorf("%+v, %v", got, err)
	}
}

// A driver that goes on with pages that it has answered already has no list to search.
func TestPagesThatRepeatEndTheSearch(t *testing.T) {
	after := map[string]string{"": "1", "1": "2", "2": "3", "3": "1"}
	asked := 0
	cl := serve(t, &plugin{
		can: can{canList, canListPublished, pb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS},
		list: func(r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
			asked++
			return &pb.ListVolumesResponse{Entries: entries(1, 10), NextToken: after[r.GetStartingToken()]}, nil
		},
		snaps: func(r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
			asked++
			return &pb.ListSnapshotsResponse{NextToken: after[r.GetStartingToken()]}, nil
		},
	})
	for _, snapshot := range []bool{false, true} {
		asked = 0
		_, err := cl.Verify(t.Context(), &api.ControllerVerifyRequest{Snapshot: snapshot, ExternalID: "none", ProviderNodeID: "n"})
		if err == nil || !strings.Contains(err.Error(), "the driver repeats its pages") || asked != len(after) {
			t.Errorf("snapshot: %t: %v after %d pages", snapshot, err, asked)
		}
	}
}

// After an expansion of unknown outcome the provider says how large the volume is, where it tells that.
func TestVerifyTellsTheSize(t *testing.T) {
	volume := func(bytes int64) *pb.Volume { return &pb.Volume{VolumeId: "v", CapacityBytes: bytes} }
	for name, p := range map[string]*plugin{
		"get": {can: can{canGet}, get: func() (*pb.ControllerGetVolumeResponse, error) {
			return &pb.ControllerGetVolumeResponse{Volume: volume(300)}, nil
		}},
		"list": {can: can{canList}, list: func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
			return &pb.ListVolumesResponse{Entries: []*pb.ListVolumesResponse_Entry{{Volume: volume(300)}}}, nil
		}},
	} {
		got, err := serve(t, p).Verify(t.Context(), &api.ControllerVerifyRequest{ExternalID: "v"})
		if err != nil || got.CapacityBytes != 300 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestVerifyThatFailsSaysSo(t *testing.T) {
	for code, ok := range map[codes.Code]bool{codes.Internal: false, codes.PermissionDenied: false, codes.Unimplemented: true} {
		cl := serve(t, &plugin{
			can: can{canGet}, get: func() (*pb.ControllerGetVolumeResponse, error) { return nil, status.Error(code, "x") },
			validate: func() (*pb.ValidateVolumeCapabilitiesResponse, error) {
				return nil, status.Error(codes.NotFound, "gone")
			},
		})
		got, err := cl.Verify(t.Context(), &api.ControllerVerifyRequest{ExternalID: "v"})
		if (err == nil) != ok || ok && got.Exists != api.KnownNo {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
	}
}

func TestVerifyOfSnapshots(t *testing.T) {
	for _, offers := range []fake.Config{{}, {GetSnapshot: true}, {NoLists: true}} {
		d := fake.New(offers)
		d.Storage().Add("v")
		cl := dial(t, d, csi.Timeouts{})
		verify := func(id, source string) string {
			t.Helper()
			got, err := cl.Verify(t.Context(), &api.ControllerVerifyRequest{Snapshot: true, ExternalID: id, SourceID: source})
			if err != nil {
				t.Fatal(err)
			}
			return got.Exists
		}
		before := verify("", "v")
		s, err := cl.CreateSnapshot(t.Context(), &api.ControllerSnapshotRequest{ExternalID: "v", Name: "s"})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{before, verify("", "v"), verify(s.ID, ""), verify("missing", "")}
		want := []string{api.KnownNo, api.KnownNothing, api.KnownYes, api.KnownNo}
		if offers.NoLists {
			want = []string{"", "", "", ""}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q", offers, got)
		}
	}
}

// Ids and topologies become keys of rows and are shown.
func TestNamesThatCannotBeStoredAreNoReply(t *testing.T) {
	for name, v := range map[string]*pb.Volume{
		"an id with NUL":           {VolumeId: "x\x00y"},
		"an id that moves cursors": {VolumeId: "x\x1b[2J"},
		"a key of a topology":      {VolumeId: "x", AccessibleTopology: []*pb.Topology{{Segments: map[string]string{"zo\x00ne": "a"}}}},
		"a value of a topology":    {VolumeId: "x", AccessibleTopology: []*pb.Topology{{Segments: map[string]string{"zone": "a\n"}}}},
	} {
		cl := serve(t, &plugin{can: can{canCreate}, create: func(*pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
			return &pb.CreateVolumeResponse{Volume: v}, nil
		}})
		out, err := cl.CreateVolume(t.Context(), creation("v"))
		var said *fault.Call
		if !errors.As(err, &said) || said.Code != "invalid reply" || !said.Uncertain {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}
