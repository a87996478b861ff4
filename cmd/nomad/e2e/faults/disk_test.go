package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestFault13DiskOfANodeFull(t *testing.T) {
	t.Parallel()
	brokenDisk(t, disk{
		how: "full for 6 s",
		mount: func(_, dir string) error {
			return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m")
		},
		damage: func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "fill"))
			block := make([]byte, 4096)
			for err == nil {
				_, err = f.Write(block)
			}
			return f.Close()
		},
		repair: func(h *kit.Host, _, dir string) error { return os.Remove(filepath.Join(dir, "fill")) },
	})
}

// TestFault13DiskOfANodeReadOnly has the kernel find an error in the node's file system. Only a new mount of it
// helps, as after a boot.
func TestFault13DiskOfANodeReadOnly(t *testing.T) {
	t.Parallel()
	// Mount namespaces of other tests' tasks have copies of what is mounted here; that it is unmounted reaches
	// them from a shared mount only.
	ext4 := func(image, dir string) error {
		if err := errors.Join(syscall.Mount(dir, dir, "", syscall.MS_BIND, ""), syscall.Mount("", dir, "", syscall.MS_SHARED, "")); err != nil {
			return err
		}
		return command("mount", "-o", "loop,errors=remount-ro", image, dir)
	}
	brokenDisk(t, disk{
		how: "read-only for 6 s, then mounted anew",
		mount: func(image, dir string) error {
			return errors.Join(command("truncate", "-s", "128M", image), command("mkfs.ext4", "-q", image), ext4(image, dir))
		},
		damage: func(dir string) error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT, "abort") },
		repair: func(h *kit.Host, image, dir string) error {
			h.Destroy()
			// As long as the mount namespace of a task that has ended lingers, it keeps the file system as it is.
			err, limit := error(syscall.EROFS), time.Now().Add(30*time.Second)
			for ; err != nil && time.Now().Before(limit); <-time.After(50 * time.Millisecond) {
				if err = unmount(h); err != nil {
					continue // a process that was killed has not left yet
				}
				_ = command("e2fsck", "-fy", image) // ends with 1 when it has mended something
				if err = ext4(image, dir); err == nil {
					err = os.WriteFile(filepath.Join(dir, "writable"), nil, 0o600)
				}
			}
			h.Heal()
			h.Restart()
			return err
		},
	})
}

// unmount takes all mounts of a host away.
func unmount(h *kit.Host) error {
	for _, point := range slices.Backward(h.Mounts()) {
		if err := syscall.Unmount(point, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// command runs a program; its error has what the program said.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return nil
}

// disk is the file system below a node's data, and how it breaks. image is a file that it may be in.
type disk struct {
	how    string
	mount  func(image, dir string) error
	damage func(dir string) error
	repair func(h *kit.Host, image, dir string) error
}

// brokenDisk breaks the disk below a node's data for a while. What runs there goes on, what is to stop ends and
// frees its volume, nothing new comes, and all is well when the disk is.
func brokenDisk(t *testing.T, d disk) {
	image := func(h *kit.Host) string { return filepath.Join(h.Dir, "image") }
	data := func(h *kit.Host) string { return filepath.Join(h.Dir, "data") }
	b := layout{nodes: 2, attach: true, prepare: func(h *kit.Host) {
		if err := os.Mkdir(data(h), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := d.mount(image(h), data(h)); err != nil {
			t.Fatal(err)
		}
	}}.bed(t)
	h := b.nodes[0]
	for _, id := range []string{"stays", "stops", "comes", "elsewhere"} {
		b.volume(id, nil)
	}
	b.Register(on(writer("stays", "stays"), h))
	b.Register(on(writer("stops", "stops"), h))
	stays := b.Running("stays", 1)
	b.Running("stops", 1)
	b.beats("stays", stays.ID)
	if len(b.mounted("stops")) == 0 {
		t.Fatal("a volume in use is mounted nowhere: the test sees nothing")
	}

	if err := d.damage(data(h)); err != nil {
		t.Fatal(err)
	}
	b.Register(on(writer("comes", "comes"), h))
	b.Stop("stops", false)
	began := time.Now()
	freed := false
	for !freed && time.Since(began) < time.Minute || time.Since(began) < 6*time.Second {
		if freed = b.Claimed("stops") == 0; freed && len(b.mounted("stops")) > 0 {
			t.Fatal("the claim is free and the volume is mounted")
		}
		<-time.After(50 * time.Millisecond)
	}
	if !freed {
		t.Errorf("the stopped job holds its volume: %s %s", b.tell("stops"), b.waits("stops"))
	}
	b.Until(30*time.Second, "one task to go on and one to end", func() error {
		if n := len(h.Shells()); n != 1 {
			return fmt.Errorf("%d run on the node", n)
		}
		return nil
	})
	if n := len(b.Allocs("comes", "running")); n > 0 {
		t.Error("the node takes a new allocation")
	}
	b.beats("stays", stays.ID)
	if now := b.Running("stays", 1); now.ID != stays.ID {
		t.Errorf("the running task was replaced: %s", b.tell("stays"))
	}
	told := ""
	n, _, err := b.API.Nodes().Info(h.NodeID(b.Host), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range n.Events {
		if strings.Contains(e.Message, "cannot be written") {
			told = e.Message
		}
	}
	if told == "" {
		t.Errorf("no event of the node tells of the disk: %d events; the new job: %s", len(n.Events), b.tell("comes"))
	}

	b.Register(writer("elsewhere", "elsewhere"))
	if a := b.Running("elsewhere", 1); b.host(a) == h {
		t.Error("the node takes a new allocation though another one could")
	}

	if err := d.repair(h, image(h), data(h)); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	b.Free("stops")
	b.runs("comes", "comes", 40*time.Second)
	back := time.Since(began)
	b.beats("comes", b.Running("comes", 1).ID)
	for _, id := range []string{"stays", "comes", "elsewhere"} {
		b.Stop(id, false)
	}
	b.clean()
	b.row(13, "disk of a node "+d.how, fmt.Sprintf("running task goes on; stop freed its volume meanwhile: %v; a job for any node runs elsewhere; event %q; new job runs %s after", freed, told, short(back)),
		"running tasks go on, stopping goes on, nothing new, node event, no lost record, recovers")
}
