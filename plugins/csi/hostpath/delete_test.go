package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Somebody may have mounted something inside of a volume. Its files are not the volume's.
func TestNothingIsDeletedBehindAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	state, foreign := t.TempDir(), t.TempDir()
	precious := filepath.Join(foreign, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cl := client(t, start(t, hostpath.Config{StateDir: state}))
	v := create(t, cl, api.ControllerCreateRequest{Name: "a", Capabilities: caps(api.AttachmentFileSystem), CapacityMinBytes: 1 << 20})
	inside := filepath.Join(state, "data", v.ExternalID, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mounts.Bind(foreign, inside, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(inside, unix.MNT_DETACH) })
	remove := func() error {
		return cl.DeleteVolume(calls(t), &api.ControllerDeleteRequest{ExternalID: v.ExternalID})
	}
	for range 2 {
		if err := remove(); err == nil {
			t.Error("a volume is deleted in which something is mounted")
		}
		if _, err := os.Stat(precious); err != nil {
			t.Fatal(err)
		}
	}
	if err := mounts.Unmount(inside); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(inside)); !os.IsNotExist(err) {
		t.Errorf("the data of the deleted volume: %v", err)
	}
}
