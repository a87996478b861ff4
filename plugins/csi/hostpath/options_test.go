package hostpath_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func TestUsualMountFlagsAreSet(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir()}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	r := newRig(t, cl)
	for flags, want := range map[string]struct {
		times    mounts.Times
		restrict mounts.Flags
	}{
		"noatime":                      {times: mounts.Times{Access: "noatime"}},
		"strictatime,nodiratime":       {times: mounts.Times{Access: "strictatime", Directories: "nodiratime"}},
		"relatime,nodev":               {times: mounts.Times{Access: "relatime"}, restrict: mounts.Flags{NoDev: true}},
		"defaults,ro,noexec,nosuid":    {restrict: mounts.Flags{ReadOnly: true, NoExec: true, NoSuid: true}},
		"async,noatime,atime,diratime": {times: mounts.Times{Access: "relatime", Directories: "diratime"}},
	} {
		nv := r.volume(v.ExternalID, api.AttachmentFileSystem)
		nv.MountOptions = &api.MountOptions{MountFlags: strings.SplitAfterN(flags, ",", 2)}
		if err := cl.NodeStage(calls(t), nv); err != nil {
			t.Fatal(err)
		}
		for try := range 2 {
			if err := cl.NodePublish(calls(t), nv); err != nil {
				t.Fatal(err)
			}
			at, err := mounts.At(r.target)
			if err != nil || at == nil || !want.times.Like(at.Times) || want.restrict.Without(at.Flags) != (mounts.Flags{}) {
				t.Errorf("%s: mounted as %+v by call %d: %v", flags, at, try, err)
			}
		}
		r.down(v.ExternalID)
	}
}

func TestUnknownMountFlagsAreRefusedByName(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir()}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	r := newRig(t, cl)
	for flag, named := range map[string]string{"sync": `"sync"`, "noatime,dirsync": `"dirsync"`, "data=ordered": `"data"`, "password=hunter2": `"password"`} {
		o := &api.MountOptions{MountFlags: []string{flag}}
		_, created := cl.CreateVolume(calls(t), &api.ControllerCreateRequest{Name: "b", Capabilities: caps(api.AttachmentFileSystem), MountOptions: o})
		_, validated := cl.Validate(calls(t), &api.ControllerValidateRequest{ExternalID: v.ExternalID, Capabilities: caps(api.AttachmentFileSystem), MountOptions: o})
		nv := r.volume(v.ExternalID, api.AttachmentFileSystem)
		nv.MountOptions = o
		for what, err := range map[string]error{"create": created, "validate": validated, "stage": cl.NodeStage(calls(t), nv)} {
			if !errors.Is(err, fault.Invalid) || csi.VerdictOf(err) != fault.VerdictFinal || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s with %s: %v", what, flag, err)
			}
		}
	}
}

func TestReadinessOfSnapshotsIsDelayed(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir()}))
	late := map[string]string{"snapshot_ready_after": "1h"}
	of := create(t, cl, api.ControllerCreateRequest{Name: "late", Capabilities: caps(api.AttachmentFileSystem), Parameters: late})
	plain := create(t, cl, api.ControllerCreateRequest{Name: "plain", Capabilities: caps(api.AttachmentFileSystem)})
	for name, c := range map[string]struct {
		volume     string
		parameters map[string]string
		ready      bool
	}{
		"by the volume":    {of.ExternalID, nil, false},
		"by the snapshot":  {plain.ExternalID, late, false},
		"not at all":       {plain.ExternalID, nil, true},
		"not, by snapshot": {of.ExternalID, map[string]string{"snapshot_ready_after": "0s"}, true},
	} {
		s, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{ExternalID: c.volume, Name: name, Parameters: c.parameters})
		if err != nil || s.IsReady != c.ready {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		_, err = cl.CreateVolume(calls(t), &api.ControllerCreateRequest{Name: "from " + name, Capabilities: caps(api.AttachmentFileSystem), SnapshotID: s.ID})
		if (err == nil) != c.ready {
			t.Errorf("a volume of the snapshot %s: %v", name, err)
		}
	}
	soon := map[string]string{"snapshot_ready_after": "50ms"}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{ExternalID: plain.ExternalID, Name: "soon", Parameters: soon})
		if err != nil {
			t.Fatal(err)
		}
		if s.IsReady {
			if time.Since(begin) < 50*time.Millisecond {
				t.Error("ready too soon")
			}
			break
		}
	}
	bad := map[string]string{"snapshot_ready_after": "soon"}
	if _, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{ExternalID: plain.ExternalID, Name: "bad", Parameters: bad}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a bad duration: %v", err)
	}
}

func TestProviderTellsWhatItKnows(t *testing.T) {
	cl := client(t, start(t, hostpath.Config{StateDir: t.TempDir(), Attach: true, NodeID: "n1"}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem)})
	verify := func(id, node string, snapshot bool) api.ControllerVerifyResponse {
		t.Helper()
		got, err := cl.Verify(calls(t), &api.ControllerVerifyRequest{ExternalID: id, ProviderNodeID: node, Snapshot: snapshot})
		if err != nil {
			t.Fatal(err)
		}
		got.By = ""
		return *got
	}
	attach := func(mode api.AccessMode) error {
		_, err := cl.ControllerPublish(calls(t), &api.ControllerPublishRequest{
			ExternalID: v.ExternalID, ProviderNodeID: "n1", AccessMode: mode, AttachmentMode: api.AttachmentFileSystem,
		})
		return err
	}
	if got := verify(v.ExternalID, "n1", false); got.Exists != api.KnownYes || got.Attached != api.KnownNo {
		t.Errorf("before: %+v", got)
	}
	if err := attach(api.AccessMultiNodeReader); err != nil {
		t.Fatal(err)
	}
	if err := attach(api.AccessMultiNodeMultiWriter); csi.VerdictOf(err) != fault.VerdictFinal || !errors.Is(err, fault.Conflict) {
		t.Errorf("a writer on an attachment for readers: %v", err)
	}
	if got := verify(v.ExternalID, "n1", false); got.Attached != api.KnownYes {
		t.Errorf("attached: %+v", got)
	}
	if got := verify("vol-missing", "n1", false); got.Exists != api.KnownNo {
		t.Errorf("missing: %+v", got)
	}
	s, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{ExternalID: v.ExternalID, Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if got := verify(s.ID, "", true); got.Exists != api.KnownYes {
		t.Errorf("snapshot: %+v", got)
	}
	if got := verify("snap-missing", "", true); got.Exists != api.KnownNo {
		t.Errorf("missing snapshot: %+v", got)
	}
}
