package mounts_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func mountAt(t *testing.T, target string) *mounts.Entry {
	t.Helper()
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", target, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	e, err := mounts.At(target)
	if err != nil || e == nil {
		t.Fatalf("%v: %v", e, err)
	}
	return e
}

// Who has a mount in another namespace is found, unless that goes with the mount.
func TestFilesOfAMountAreFoundInOtherNamespaces(t *testing.T) {
	root(t)
	for name, c := range map[string]struct {
		script string
		has    bool
	}{
		"nobody":                      {"true", false},
		"a copy that goes along":      {"mount --make-rslave /", false},
		"a copy of its own":           {"mount --make-rprivate /", true},
		"bound elsewhere":             {`mount --make-rslave / && mount --bind "$1" "$2"`, true},
		"a part of it bound":          {`mount --make-rslave / && mkdir "$1/sub" && mount --bind "$1/sub" "$2"`, true},
		"bound without the mount":     {`mount --make-rprivate / && mount --bind "$1" "$2" && umount "$1"`, true},
		"a copy of its own, all gone": {`mount --make-rprivate / && umount "$1"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
				t.Fatal(err)
			}
			other := filepath.Join(t.TempDir(), "other")
			if err := os.Mkdir(other, 0o700); err != nil {
				t.Fatal(err)
			}
			e := mountAt(t, filepath.Join(dir, "at"))
			args := []string{"sh", "-c", c.script + ` && echo ready && read line`, "sh", e.Point, other}
			if c.script != "true" {
				args = append([]string{"unshare", "-m", "--propagation", "unchanged"}, args...)
			}
			cmd := exec.Command(args[0], args[1:]...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
			pid, err := mounts.Elsewhere(e)
			if err != nil || (pid != 0) != c.has || c.has && pid != cmd.Process.Pid {
				t.Errorf("process %d has it, expected %v of %d: %v", pid, c.has, cmd.Process.Pid, err)
			}
		})
	}
}

func TestChangesOfTheMountTableAreTold(t *testing.T) {
	root(t)
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- mounts.Watch(ctx, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	dir := t.TempDir()
	for i, name := range []string{"a", "b", "c"} {
		deadline := time.After(30 * time.Second)
		mountAt(t, filepath.Join(dir, name))
		if i == 0 { // the watch may begin after the mount
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for heard := false; !heard; {
				select {
				case <-told:
					heard = true
				case <-tick.C:
					mounted := filepath.Join(dir, name)
					if err := unix.Mount(mounted, mounted, "", unix.MS_BIND, ""); err != nil {
						t.Fatal(err)
					}
					if err := unix.Unmount(mounted, 0); err != nil {
						t.Fatal(err)
					}
				case <-deadline:
					t.Fatal("never told")
				}
			}
			continue
		}
		select {
		case <-told:
		case <-deadline:
			t.Fatal("never told")
		}
	}
	stop()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the end of the context is no error")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the watch does not end")
	}
}

func TestDeviceNodesAreFound(t *testing.T) {
	root(t)
	dir := t.TempDir()
	targets := filepath.Join(dir, "node", "p[1]", "t")
	if err := os.MkdirAll(filepath.Join(targets, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	block, char := filepath.Join(targets, "block"), filepath.Join(targets, "char")
	if err := unix.Mknod(block, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		t.Skipf("no device nodes here: %v", err)
	}
	if err := unix.Mknod(char, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	found, err := mounts.System{}.Devices(dir, "t")
	if err != nil || len(found) != 1 || found[0] != block {
		t.Errorf("found %v: %v", found, err)
	}
	if found, err = (mounts.System{}).Devices(filepath.Join(dir, "none"), "t"); err != nil || len(found) != 0 {
		t.Errorf("found %v: %v", found, err)
	}
}
