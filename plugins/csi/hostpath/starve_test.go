package hostpath_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

// A deletion waits for the copies that are under way, and for no others: copies that follow each other would keep it from
// coming for ever.
func TestCopiesDoNotHoldUpADeletionForEver(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	source := create(t, cl, made)
	if err := os.WriteFile(filepath.Join(state, "data", source.ExternalID, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	snap, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: source.ExternalID})
	if err != nil {
		t.Fatal(err)
	}
	clone := made
	clone.Name, clone.SnapshotID = "first", snap.ID
	first := create(t, cl, clone)

	for what, c := range map[string]struct {
		id     string
		remove func(context.Context) error
		copy   func(name string) error
	}{
		"volume": {source.ExternalID, func(ctx context.Context) error {
			return cl.DeleteVolume(ctx, &api.ControllerDeleteRequest{ExternalID: source.ExternalID})
		}, func(name string) error {
			_, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: name, ExternalID: source.ExternalID})
			return err
		}},
		"snapshot": {snap.ID, func(ctx context.Context) error {
			return cl.DeleteSnapshot(ctx, &api.ControllerSnapshotDeleteRequest{ID: snap.ID})
		}, func(name string) error {
			again := clone
			again.Name = name
			_, err := cl.CreateVolume(calls(t), &again)
			return err
		}},
	} {
		end := copyOf(t, state, c.id)
		ctx, cancel := context.WithTimeout(calls(t), 50*time.Millisecond)
		if err := c.remove(ctx); err == nil {
			t.Errorf("%s: it was deleted while it was copied", what)
		}
		cancel()
		const many = 200
		copies := 0
		for ; copies < many && c.copy(fmt.Sprint(what, copies)) == nil; copies++ {
		}
		if copies == many {
			t.Errorf("%s: %d copies began after its deletion", what, copies)
		}
		if _, err := os.Lstat(filepath.Join(state, "data", c.id)); err != nil {
			t.Errorf("%s: its data went during a copy: %v", what, err)
		}
		end()
		if err := c.remove(calls(t)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(filepath.Join(state, "data", c.id)); !os.IsNotExist(err) {
			t.Errorf("%s: its data is there: %v", what, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(state, "data", first.ExternalID, "file")); err != nil {
		t.Error(err)
	}
}

// What is made anew while its deletion waits for a copy waits too, and is not what is deleted then.
func TestVolumeThatIsMadeAnewWaitsForTheCopiesOfTheOld(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	made := api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20}
	v := create(t, cl, made)
	old := filepath.Join(state, "data", v.ExternalID, "old")
	if err := os.WriteFile(old, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: "s", ExternalID: v.ExternalID}); err != nil {
		t.Fatal(err)
	}
	end := copyOf(t, state, v.ExternalID)
	deleted, again := make(chan error), make(chan error)
	go func() {
		deleted <- cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: v.ExternalID})
	}()
	other := client(t, start(t, hostpath.Config{StateDir: state})) // one client makes one call of a volume at a time
	for deadline := time.Now().Add(30 * time.Second); ; {
		got, err := other.CreateSnapshot(calls(t), &api.ControllerSnapshotRequest{Name: fmt.Sprint(time.Now().UnixNano()), ExternalID: v.ExternalID})
		if err != nil {
			break // the deletion has begun
		}
		if time.Now().After(deadline) {
			t.Fatalf("a deletion has not begun: %+v", got)
		}
	}
	go func() {
		_, err := other.CreateVolume(calls(t), &made)
		again <- err
	}()
	select {
	case err := <-again:
		t.Errorf("it was made anew over what is copied: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := os.Lstat(old); err != nil {
		t.Errorf("its data went during a copy: %v", err)
	}
	end()
	for what, ch := range map[string]chan error{"delete": deleted, "create": again} {
		if err := <-ch; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(old)); err != nil || len(left) > 0 {
		t.Errorf("the new volume has %v: %v", left, err)
	}
}

// copyOf is a copy of the data of a volume or snapshot, which was copied before, and goes on until it is told to end.
func copyOf(t *testing.T, state, id string) (end func()) {
	t.Helper()
	f, err := os.OpenFile(hostpath.DataLock(state, id), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func() { f.Close() }
}
