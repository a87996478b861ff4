package volumes_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// What somebody puts in the place of a plugin's socket makes the plugin unhealthy: mounts wait, and go on when it is back.
func TestMountWaitsWhileThePluginsSocketIsSomethingElse(t *testing.T) {
	for name, put := range map[string]func(*testing.T, string) error{
		"a file":             func(_ *testing.T, p string) error { return os.WriteFile(p, []byte("no socket"), 0o600) },
		"a directory":        func(_ *testing.T, p string) error { return os.Mkdir(p, 0o700) },
		"a link to nowhere":  func(_ *testing.T, p string) error { return os.Symlink("/nowhere", p) },
		"a link to itself":   func(_ *testing.T, p string) error { return os.Symlink(p, p) },
		"a link to a device": func(_ *testing.T, p string) error { return os.Symlink("/dev/zero", p) },
		"somebody who never answers": func(t *testing.T, p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Config{})
			r.plugIn("p1")
			found, err := filepath.Glob(filepath.Join(r.dir, "client", "*", "plugins", "*", "csi.sock"))
			if more, _ := filepath.Glob(filepath.Join(r.dir, "client", "plugins", "*", "csi.sock")); err != nil || len(found)+len(more) != 1 {
				t.Fatalf("sockets %q %q: %v", found, more, err)
			} else {
				found = append(found, more...)
			}
			r.stop() // with its connection
			if err := os.Rename(found[0], found[0]+".away"); err != nil {
				t.Fatal(err)
			}
			if err := put(t, found[0]); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.supervise(r.plug)
			up := make(chan error, 1)
			go func() { _, err := r.svc.Up(r.ctx(), workload("w")); up <- err }()
			r.node("unhealthy", func(i *api.CSIInfo) bool { return i != nil && !i.Healthy && i.HealthDescription != "" })
			if err := os.RemoveAll(found[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(found[0]+".away", found[0]); err != nil {
				t.Fatal(err)
			}
			if err := <-up; err != nil {
				t.Errorf("mount: %v", err)
			}
			if err := r.svc.Down(r.ctx(), workload("w").ID); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
}
