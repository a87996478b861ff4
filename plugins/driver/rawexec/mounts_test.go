package rawexec_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// runMounted runs a script with mounts to its end and returns its standard output.
func runMounted(t *testing.T, script string, mounts ...driver.Mount) string {
	t.Helper()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh(script))
	task.Mounts = mounts
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	x, err := d.Wait(suite.Context(t), task.ID)
	if err != nil || !x.Successful() {
		t.Fatalf("exit %+v %v, stderr %q", x, err, suite.LogText(task, "stderr"))
	}
	return suite.LogText(task, "stdout")
}

func volume(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAbsoluteMountLeavesNothingOnHost(t *testing.T) {
	for _, dest := range []string{"/nomad-test-volume", "/nomad-test-a/b/c", "/var/lib/nomad-test/volume", "/tmp/nomad-test-volume", "/run/nomad-test/v"} {
		t.Run(strings.ReplaceAll(dest[1:], "/", "_"), func(t *testing.T) {
			t.Parallel()
			source := volume(t, "hello")
			before := mountTable(t)
			out := runMounted(t, "cat "+dest+"/hello && echo written >"+dest+"/new && ls -d /etc/passwd /usr /bin/sh",
				driver.Mount{Source: source, Destination: dest})
			if out != "hello\n/bin/sh\n/etc/passwd\n/usr\n" {
				t.Errorf("the task saw %q", out)
			}
			if b, err := os.ReadFile(filepath.Join(source, "new")); err != nil || string(b) != "written\n" {
				t.Errorf("the volume holds %q %v", b, err)
			}
			for p := dest; p != "/" && p != "/var/lib" && p != "/tmp" && p != "/run"; p = filepath.Dir(p) {
				if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s exists on the host: %v", p, err)
				}
			}
			if after := mountTable(t); !bytes.Equal(before, after) {
				t.Errorf("mounts of the host changed:\n%s\n%s", before, after)
			}
		})
	}
}

// mountTable is the host's mounts, without those of other processes' tests in temporary places.
func mountTable(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, l := range bytes.Split(b, []byte("\n")) {
		if bytes.Contains(l, []byte("nomad-test")) || bytes.Contains(l, []byte("/TestAbsoluteMount")) {
			out = append(out, l...)
		}
	}
	return out
}

func TestMountOverExistingDirectory(t *testing.T) {
	if out := runMounted(t, "ls /opt", driver.Mount{Source: volume(t, "inside"), Destination: "/opt"}); out != "inside\n" {
		t.Errorf("the task saw %q", out)
	}
}

func TestReadOnlyMountRefusesWrites(t *testing.T) {
	source := volume(t, "hello")
	out := runMounted(t, "cat data/hello; (echo x >data/new) 2>/dev/null || echo refused",
		driver.Mount{Source: source, Destination: "data", ReadOnly: true})
	if out != "hello\nrefused\n" {
		t.Errorf("the task saw %q", out)
	}
	if _, err := os.Stat(filepath.Join(source, "new")); err == nil {
		t.Error("written to a read-only mount")
	}
}

func TestSeveralMounts(t *testing.T) {
	file := filepath.Join(volume(t, "single"), "single")
	out := runMounted(t, "cat /nomad-test-one/a one/two/b /nomad-test-one/inner/c conf/file.txt /nomad-test-conf",
		driver.Mount{Source: volume(t, "c"), Destination: "/nomad-test-one/inner"},
		driver.Mount{Source: volume(t, "b"), Destination: "one/two"},
		driver.Mount{Source: volume(t, "a"), Destination: "/nomad-test-one"},
		driver.Mount{Source: file, Destination: "conf/file.txt"},
		driver.Mount{Source: file, Destination: "/nomad-test-conf"})
	if out != "a\nb\nc\nsingle\nsingle\n" {
		t.Errorf("the task saw %q", out)
	}
}

func TestMountUnderAllocDirIsSharedBySiblings(t *testing.T) {
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh(`echo shared >"`+"$ALLOC"+`/note"; cat "$ALLOC/vol/hello"`))
	task.Env["ALLOC"] = task.AllocDir
	task.Mounts = []driver.Mount{{Source: volume(t, "hello"), Destination: task.AllocDir + "/vol"}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
		t.Fatalf("exit %+v %v: %s", x, err, suite.LogText(task, "stderr"))
	}
	if b, _ := os.ReadFile(filepath.Join(task.AllocDir, "note")); string(b) != "shared\n" {
		t.Errorf("what the task wrote next to its mount: %q", b)
	}
}

func TestMountIsNotMadeThroughSymlink(t *testing.T) {
	d := newDriver(t, t.TempDir())
	outside := t.TempDir()
	task := suite.NewTask(t, sh("true"))
	if err := os.Symlink(outside, filepath.Join(task.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{Source: volume(t), Destination: "link/made"}}
	if _, err := d.Start(suite.Context(t), task); err == nil {
		t.Error("mounted through a symbolic link")
	}
	if _, err := os.Stat(filepath.Join(outside, "made")); err == nil {
		t.Error("made a directory outside of the task directory")
	}
}

func TestBadMountsAreRefused(t *testing.T) {
	source := volume(t, "f")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]driver.Mount{
		"escape":        {Source: source, Destination: "../x"},
		"root":          {Source: source, Destination: "/"},
		"task dir":      {Source: source, Destination: "."},
		"empty":         {Source: source},
		"relative":      {Source: "x", Destination: "y"},
		"propagation":   {Source: source, Destination: "y", Propagation: "bidirectional"},
		"file over dir": {Source: source + "/f", Destination: "/opt"},
		"dir over file": {Source: source, Destination: "/etc/passwd"},
		"below a file":  {Source: source, Destination: "/etc/passwd/x"},
		"processes":     {Source: source, Destination: "/proc"},
		"a process":     {Source: source, Destination: "/proc/1/x"},
		"by a link":     {Source: source, Destination: link},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, t.TempDir())
			task := suite.NewTask(t, sh("true"))
			task.Mounts = []driver.Mount{m}
			if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) {
				t.Errorf("start: %v, want invalid", err)
			}
		})
	}
}

func TestMissingMountSourceMayComeLater(t *testing.T) {
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("true"))
	task.Mounts = []driver.Mount{{Source: "/no/such/volume", Destination: "data"}}
	if _, err := d.Start(suite.Context(t), task); !driver.Recoverable(err) {
		t.Errorf("start: %v, want recoverable", err)
	}
}

func TestTaskWithoutMountsSharesTheHostsNamespace(t *testing.T) {
	d := newDriver(t, t.TempDir())
	startOne(t, d, 0)
	st, err := d.Inspect(taskID(0))
	if err != nil {
		t.Fatal(err)
	}
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	theirs, err := os.Readlink("/proc/" + st.Attributes["pid"] + "/ns/mnt")
	if err != nil || ours != theirs {
		t.Errorf("namespace %s, host %s %v", theirs, ours, err)
	}
}

func TestBlockDeviceCanBeMounted(t *testing.T) {
	var device string
	entries, _ := os.ReadDir("/sys/block")
	for _, e := range entries {
		if st, err := os.Stat("/dev/" + e.Name()); err == nil && st.Mode()&os.ModeDevice != 0 {
			device = "/dev/" + e.Name()
			break
		}
	}
	if device == "" {
		t.Skip("no block device on this host")
	}
	out := runMounted(t, `test -b disk && test -b /dev/nomad-test-disk && stat -c %t:%T disk /dev/nomad-test-disk `+device,
		driver.Mount{Source: device, Destination: "disk", ReadOnly: true}, driver.Mount{Source: device, Destination: "/dev/nomad-test-disk"})
	lines := strings.Fields(out)
	if len(lines) != 3 || lines[0] != lines[2] || lines[1] != lines[2] {
		t.Errorf("device numbers %s", strconv.Quote(out))
	}
}

// TestHostUnmountLeavesTheTask: the copy of the host's mounts in a task's namespace must not keep a volume
// of somebody else busy.
func TestHostUnmountLeavesTheTask(t *testing.T) {
	d := newDriver(t, t.TempDir())
	root := t.TempDir()
	vol := filepath.Join(root, "vol")
	if err := os.Mkdir(vol, 0o755); err != nil {
		t.Fatal(err)
	}
	mountOn := func(source, target, kind string, flags uintptr) {
		t.Helper()
		if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
			t.Skip("cannot mount here: ", err)
		}
	}
	mountOn(root, root, "", syscall.MS_BIND)
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	mountOn("", root, "", syscall.MS_SHARED)
	mountOn("tmpfs", vol, "tmpfs", 0)
	t.Cleanup(func() { _ = syscall.Unmount(vol, syscall.MNT_DETACH) })

	task := suite.NewTask(t, sh("exec sleep 1000"))
	task.Mounts = []driver.Mount{{Source: volume(t), Destination: "/nomad-test-other"}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	sees := func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pidOf(t, d, task.ID, "pid")) + "/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), vol)
	}
	if !sees() {
		t.Fatal("the task does not see the host's mount")
	}
	if err := syscall.Unmount(vol, 0); err != nil {
		t.Fatal(err)
	}
	if sees() {
		t.Error("the task keeps a mount that the host gave up")
	}
}

func TestSubPathShowsOneDirectoryOfTheVolume(t *testing.T) {
	source := volume(t, "hello")
	if err := os.MkdirAll(filepath.Join(source, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := runMounted(t, "ls -A data && echo written >data/new", driver.Mount{Source: source, SubPath: "a/b", Destination: "data"})
	if out != "" {
		t.Errorf("the task saw %q", out)
	}
	if b, err := os.ReadFile(filepath.Join(source, "a/b/new")); err != nil || string(b) != "written\n" {
		t.Errorf("the volume holds %q %v", b, err)
	}
}

func TestSubPathFollowsNoLinkThatAppearedLater(t *testing.T) {
	source, outside := volume(t), volume(t, "secret")
	if err := os.Symlink(outside, filepath.Join(source, "a")); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir())
	for _, sub := range []string{"a", "a/../a", "../x"} {
		task := suite.NewTask(t, sh("cat data/secret"))
		task.Mounts = []driver.Mount{{Source: source, SubPath: sub, Destination: "data"}}
		if _, err := d.Start(suite.Context(t), task); err == nil {
			t.Errorf("sub path %q was mounted", sub)
			_ = d.Destroy(bounded(t), task.ID)
		}
	}
}
