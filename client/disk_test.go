package client_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

// tmpfs mounts a file system at a new directory until the test ends.
func tmpfs(t *testing.T, dir, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// fill writes until no space is left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if f.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// shows reports whether the node record has its driver so, with that text in its description.
func shows(n *api.Node, healthy bool, text string) bool {
	d := n.Drivers["mock_driver"]
	return d != nil && d.Healthy == healthy && strings.Contains(d.HealthDescription, text)
}

func (b *bench) begin(t *testing.T) {
	t.Helper()
	b.start(t)
	b.place(alloc("stays", job("service", "mock_driver", map[string]any{"run_for": "1h"})))
	b.until(t, "running", func() bool { return b.status("stays") == api.AllocClientStatusRunning })
}

// trouble waits until the servers know that nothing runs here for a reason.
func (b *bench) trouble(t *testing.T, text string) {
	t.Helper()
	b.until(t, "trouble is told: "+text, func() bool { return shows(b.nodes[b.node.ID()], false, text) })
	b.until(t, "the event is told: "+text, func() bool { return b.told(text) })
	b.until(t, "the task goes on", func() bool { return b.status("stays") == api.AllocClientStatusRunning })
}

func (b *bench) told(text string) bool {
	for _, e := range b.events {
		if e.Subsystem == "Storage" && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

func TestFullDiskOfTheClient(t *testing.T) {
	b := setup(t)
	b.conf.DiskInterval = 300 * time.Millisecond
	tmpfs(t, b.conf.StateDir, "size=4m")
	b.begin(t)
	fill(t, filepath.Join(b.conf.StateDir, "fill"))
	b.place(alloc("comes", job("service", "mock_driver", map[string]any{"run_for": "1h"})))
	b.trouble(t, "Client state cannot be written: no space left on device")
	if err := os.Remove(filepath.Join(b.conf.StateDir, "fill")); err != nil {
		t.Fatal(err)
	}
	b.until(t, "healthy again", func() bool { return shows(b.nodes[b.node.ID()], true, "") && b.told("can be written again") })
	b.stop()
	b.start(t)
	b.until(t, "running after a restart", func() bool { return b.status("stays") == api.AllocClientStatusRunning })
}

// TestAllocationThatFillsTheDiskIsNamed: its node and its task have an event, and no other allocation is named.
func TestAllocationThatFillsTheDiskIsNamed(t *testing.T) {
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	b.conf.DiskInterval = 300 * time.Millisecond
	tmpfs(t, filepath.Dir(b.conf.StateDir), "size=24m")
	b.begin(t)
	filler := alloc("filler", job("service", "raw_exec", map[string]any{
		"command": "/bin/sh", "args": []any{"-c", `while :; do head -c 65536 /dev/zero >>$NOMAD_ALLOC_DIR/data/f || sleep 0.1; done`},
	}))
	filler.Job.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 2}
	b.place(filler)
	b.trouble(t, "no space left on device")
	b.until(t, "the allocation is named", func() bool { return b.told(`allocation filler of job "j" uses `) })
	b.until(t, "the task has the event", func() bool {
		a := b.allocs["filler"]
		return a != nil && a.TaskStates["t"] != nil && slices.ContainsFunc(a.TaskStates["t"].Events, func(e *api.TaskEvent) bool {
			return e.Type == "Ephemeral Disk" && strings.HasSuffix(e.DisplayMessage, "its ephemeral disk has 2 MiB")
		})
	})
	if b.edit(func() {
		if b.told("allocation stays") {
			t.Error("an allocation is named that uses little")
		}
	}); b.status("filler") != api.AllocClientStatusRunning {
		t.Errorf("the task is %s", b.status("filler"))
	}
	b.place(stopped(filler))
	b.until(t, "it ends on a full disk", func() bool { return b.status("filler") == api.AllocClientStatusComplete })
	b.edit(func() { delete(b.allocs, "filler") })
	b.until(t, "healthy without it", func() bool { return shows(b.nodes[b.node.ID()], true, "") })
}

// TestRestartWithAFullDisk: servers that saw the node healthy for a moment would place on it what cannot start there.
func TestRestartWithAFullDisk(t *testing.T) {
	b := setup(t)
	tmpfs(t, b.conf.StateDir, "size=4m")
	b.start(t)
	b.until(t, "registered", func() bool { return len(b.took) > 0 })
	full := filepath.Join(b.conf.StateDir, "fill")
	fill(t, full)
	info, err := os.Stat(full)
	if err != nil {
		t.Fatal(err)
	}
	b.broken = true // its last records are lost
	for range 10 {
		b.stop()
		if err := os.Truncate(full, info.Size()-(256<<10)); err != nil {
			t.Fatal(err) // some room is left, as it is when tasks end, and not enough to take up new work
		}
		known := 0
		b.edit(func() { known = len(b.took) })
		b.start(t)
		b.until(t, "registered again", func() bool { return len(b.took) > known })
		b.edit(func() {
			if n := b.took[known]; !shows(n, false, "no space left on device") {
				t.Errorf("first registered with the driver %+v", n.Drivers["mock_driver"])
			}
		})
	}
}

func TestReadOnlyAllocationDirectory(t *testing.T) {
	b := setup(t)
	b.conf.DiskInterval = 300 * time.Millisecond
	tmpfs(t, b.conf.AllocDir, "size=16m")
	b.start(t)
	b.until(t, "healthy", func() bool { n := b.nodes[b.node.ID()]; return n != nil && shows(n, true, "") })
	remount := func(flags uintptr) {
		eventually(t, "remounted", func() bool {
			err := unix.Mount("", b.conf.AllocDir, "", unix.MS_REMOUNT|flags, "")
			return err == nil
		})
	}
	remount(unix.MS_RDONLY)
	b.until(t, "trouble is told", func() bool {
		return shows(b.nodes[b.node.ID()], false, "Allocation directory cannot be written: read-only file system")
	})
	remount(0)
	b.until(t, "healthy again", func() bool { return shows(b.nodes[b.node.ID()], true, "") })
}

func TestFileSystemThatWentReadOnly(t *testing.T) {
	b := setup(t)
	b.conf.DiskInterval = 300 * time.Millisecond
	ext4(t, b.conf.StateDir)
	b.begin(t)
	b.broken = true
	if err := unix.Mount("", b.conf.StateDir, "", unix.MS_REMOUNT, "abort"); err != nil {
		t.Skipf("the file system cannot be made to fail: %v", err)
	}
	b.trouble(t, "Client state cannot be written: ")
}

// TestStoppingNeedsNoDisk: what is told to end ends and is reported while nothing can be written, and stays ended.
func TestStoppingNeedsNoDisk(t *testing.T) {
	for _, broken := range []string{"full", "read-only"} {
		t.Run(broken, func(t *testing.T) {
			b := setup(t)
			b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
			b.conf.DiskInterval = 300 * time.Millisecond
			data := filepath.Dir(b.conf.StateDir)
			if broken == "full" {
				tmpfs(t, data, "size=16m")
			} else {
				ext4(t, data)
			}
			b.begin(t)
			shell := alloc("shell", job("service", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"1000"}}))
			b.place(shell)
			b.until(t, "running", func() bool { return b.status("shell") == api.AllocClientStatusRunning })
			endHolders(t, b.conf.StateDir) // what cannot record an exit keeps it for the next agent
			if broken == "full" {
				fill(t, filepath.Join(data, "fill"))
			} else if err := unix.Mount("", data, "", unix.MS_REMOUNT, "abort"); err != nil {
				t.Skipf("the file system cannot be made to fail: %v", err)
			}
			b.broken = broken != "full"
			b.trouble(t, "cannot be written: ")
			b.place(stopped(shell))
			b.until(t, "it is reported", func() bool { return b.status("shell") == api.AllocClientStatusComplete })
			if b.broken {
				return
			}
			if err := os.Remove(filepath.Join(data, "fill")); err != nil {
				t.Fatal(err)
			}
			b.until(t, "healthy again", func() bool { return shows(b.nodes[b.node.ID()], true, "") })
			b.stop()
			b.start(t)
			b.until(t, "running after a restart", func() bool { return b.status("stays") == api.AllocClientStatusRunning })
			if now := b.status("shell"); now != api.AllocClientStatusComplete {
				t.Errorf("the record did not follow: it is %s again", now)
			}
		})
	}
}

// endHolders ends, with the test, the processes that have files below the directory open now.
func endHolders(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, err := os.Readlink(f)
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if err != nil || pid == os.Getpid() || !strings.HasPrefix(to, dir+"/") {
			continue
		}
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			_ = unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0)
			_ = unix.Close(process)
		})
	}
}

// ext4 mounts a file system of that type at a new directory until the test ends.
func ext4(t *testing.T, dir string) {
	t.Helper()
	tmpfs(t, t.TempDir(), "") // skips without root
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(exec.Command("truncate", "-s", "32M", image).Run(), os.MkdirAll(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("no ext4 here: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop,errors=remount-ro", image, dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device here: %v %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}
