package hostpath_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// immutable makes a file that nobody can remove, or ends that.
func immutable(t *testing.T, path string, yes bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := 0
	if yes {
		flags = 0x10 // FS_IMMUTABLE_FL
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		t.Skipf("files cannot be made immutable here: %v", err)
	}
	if yes {
		t.Cleanup(func() { immutableQuietly(path) })
	}
}

func immutableQuietly(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
}

func listed(t *testing.T, cl *csi.Client) int {
	t.Helper()
	list, err := cl.ListVolumes(calls(t), &api.ControllerListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Volumes)
}

// A deletion that fails, or dies, halfway keeps the record until the data is gone: else nobody deletes the rest.
func TestDeletionIsRepeatedUntilTheDataIsGone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("immutable files need root")
	}
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	v := create(t, cl, made)
	data := filepath.Join(state, "data", v.ExternalID)
	if err := os.Mkdir(filepath.Join(data, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	stuck := filepath.Join(data, "dir", "stuck")
	immutable(t, stuck, true)
	for range 2 {
		if err := cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: v.ExternalID}); err == nil {
			t.Fatal("a deletion says OK with data left")
		}
		if listed(t, cl) != 1 {
			t.Fatal("a volume whose data is there is not listed")
		}
	}
	stage := &csi.NodeVolume{
		ExternalID: v.ExternalID, StagingPath: filepath.Join(t.TempDir(), "s"), AttachmentMode: api.AttachmentFileSystem,
		AccessMode: api.AccessMultiNodeMultiWriter,
	}
	if err := cl.NodeStage(calls(t), stage); err == nil {
		t.Error("what is left of a volume that is being deleted is staged")
	}
	clone := made
	clone.Name, clone.CloneID = "b", v.ExternalID
	if _, err := cl.CreateVolume(calls(t), &clone); err == nil {
		t.Error("what is left of a volume that is being deleted is cloned")
	}
	if _, err := cl.CreateVolume(calls(t), &made); err == nil {
		t.Error("a volume is made of what is left of one that is being deleted")
	}
	immutable(t, stuck, false)
	if again := create(t, cl, made); again.ExternalID != v.ExternalID {
		t.Errorf("made anew as %s, not %s", again.ExternalID, v.ExternalID)
	}
	if _, err := os.Lstat(stuck); !os.IsNotExist(err) {
		t.Errorf("the new volume has data of the one that was deleted: %v", err)
	}
	if err := cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: v.ExternalID}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(data); !os.IsNotExist(err) || listed(t, cl) != 0 {
		t.Errorf("the data of the deleted volume: %v", err)
	}
}

// A deletion of earlier versions removed the record first, and a creation that died has none: what they left goes with
// the next deletion.
func TestDeletionRemovesDataWithoutARecord(t *testing.T) {
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20})
	if err := os.Remove(filepath.Join(state, "volumes", v.ExternalID+".json")); err != nil {
		t.Fatal(err)
	}
	other := create(t, cl, api.ControllerCreateRequest{Name: "b", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20})
	snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: other.ExternalID})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{v.ExternalID, snap.ID, "..", "../volumes", v.ExternalID + "/.."} {
		if err := cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: id}); err != nil {
			t.Errorf("delete %q: %v", id, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(state, "data"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 {
		t.Errorf("%d entries are left of one volume and one snapshot: %v", len(left), left)
	}
}

// What is mounted inside of a volume is somebody else's: neither clones nor snapshots have it. What it covers is the
// volume's.
func TestCopiesDoNotHaveWhatIsMountedInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	state, foreign := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "secret"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	v := create(t, cl, made)
	inside, file := filepath.Join(state, "data", v.ExternalID, "inside"), filepath.Join(state, "data", v.ExternalID, "file")
	if err := os.Mkdir(inside, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(inside, "covered"), file} {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for source, target := range map[string]string{foreign: inside, filepath.Join(foreign, "secret"): file} {
		if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
	clone := made
	clone.Name, clone.CloneID = "b", v.ExternalID
	ids := []string{create(t, cl, clone).ExternalID}
	snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: v.ExternalID})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range append(ids, snap.ID) {
		data := filepath.Join(state, "data", id)
		if _, err := os.Lstat(filepath.Join(data, "inside", "secret")); !os.IsNotExist(err) {
			t.Errorf("%s has what was mounted inside of the volume: %v", id, err)
		}
		for _, path := range []string{"inside/covered", "file"} {
			if body, err := os.ReadFile(filepath.Join(data, path)); err != nil || string(body) != "mine" {
				t.Errorf("%s: %s is %q: %v", id, path, body, err)
			}
		}
	}
}

// The volume as a whole may be covered: its clone would be a copy of something else.
func TestCoveredVolumeIsNotCopied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	state, foreign := t.TempDir(), t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	v := create(t, cl, made)
	data := filepath.Join(state, "data", v.ExternalID)
	if err := mounts.Bind(foreign, data, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	clone := made
	clone.Name, clone.CloneID = "b", v.ExternalID
	if _, err := cl.CreateVolume(calls(t), &clone); err == nil {
		t.Error("what covers a volume was cloned in its stead")
	}
}

// A source that is deleted, and made anew, while it is copied would be copied in part.
func TestCopiesOfWhatIsDeletedMeanwhileAreWhole(t *testing.T) {
	t.Parallel()
	const files = 100
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	v := create(t, cl, made)
	for i := range files {
		if err := os.WriteFile(filepath.Join(state, "data", v.ExternalID, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	var deleting sync.WaitGroup
	deleting.Go(func() {
		for {
			snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: v.ExternalID})
			if err == nil {
				err = cl.DeleteSnapshot(calls(t), &api.ControllerSnapshotDeleteRequest{ID: snap.ID})
			}
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	defer deleting.Wait()
	defer close(over)
	snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: v.ExternalID})
	if err != nil {
		t.Fatal(err)
	}
	clone := made
	clone.SnapshotID = snap.ID
	copies := 0
	for i := 0; copies < 4; i++ {
		clone.Name = "copy " + strconv.Itoa(i)
		c, err := cl.CreateVolume(calls(t), &clone)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			continue
		}
		copies++
		names, err := os.ReadDir(filepath.Join(state, "data", c.ExternalID))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) != files {
			t.Errorf("a copy has %d files of %d", len(names), files)
		}
	}
}
