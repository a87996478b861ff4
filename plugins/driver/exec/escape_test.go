package exec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Each test is one way out of the isolation that works without it. Unless it is about another user the task runs as root,
// which has all capabilities that a task may have.

func expect(t *testing.T, got map[string]string, probe string, want ...string) {
	t.Helper()
	if result, ran := got[probe]; !ran || !slices.Contains(want, result) {
		t.Errorf("%s: %q, want one of %q", probe, result, want)
	}
}

func TestTaskMountsNothing(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"root", ""} {
		got := tried(t, user, nil, nil, "mount", "fsopen", "unshare", "clone", "remount", "io_uring", "bpf", "clone3")
		for _, probe := range []string{"mount", "fsopen", "unshare", "clone", "remount", "io_uring", "bpf"} {
			expect(t, got, probe, "EPERM")
		}
		expect(t, got, "clone3", "ENOSYS")
	}
}

func TestTaskTracesNoProcessOfTheHost(t *testing.T) {
	t.Parallel()
	got := tried(t, "root", nil, nil, "ptrace", "memory")
	expect(t, got, "ptrace", "ESRCH", "EPERM")
	expect(t, got, "memory", "ENOENT", "EACCES")
	got = tried(t, "root", map[string]any{"pid_mode": "host"}, nil, "ptrace", "memory")
	expect(t, got, "ptrace", "EPERM")
	expect(t, got, "memory", "EACCES", "EPERM")
}

func TestRootOfAnotherProcessIsOutOfReach(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "host"} {
		got := tried(t, "root", map[string]any{"pid_mode": mode}, nil, "root of the first process", "root of another process", "program of the first process")
		expect(t, got, "root of the first process", "EACCES", "EPERM")
		expect(t, got, "root of another process", "EACCES", "EPERM", "ENOENT")
		expect(t, got, "program of the first process", "EACCES", "EPERM")
	}
	// Also where a task may look into processes, the first one has the root directory of the task.
	got := tried(t, "root", map[string]any{"cap_add": []any{"sys_ptrace"}}, nil, "root of the first process", "program of the first process")
	expect(t, got, "root of the first process", "ENOENT", "EACCES", "EPERM")
	expect(t, got, "program of the first process", "ETXTBSY", "EACCES", "EPERM")
}

func TestChrootStaysInside(t *testing.T) {
	t.Parallel()
	expect(t, tried(t, "root", nil, nil, "chroot"), "chroot", "ENOENT")
}

func TestTaskUsesNoRawDevice(t *testing.T) {
	t.Parallel()
	got := tried(t, "root", nil, func(task *driver.Task) {
		if err := unix.Mknod(filepath.Join(task.AllocDir, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
	}, "make device", "open device", "make file in dev", "use null")
	expect(t, got, "make device", "EPERM")
	expect(t, got, "open device", "EACCES")
	expect(t, got, "make file in dev", "EROFS")
	expect(t, got, "use null", "")
}

func TestSetUserIDProgramGainsNothing(t *testing.T) {
	t.Parallel()
	got := tried(t, "", nil, func(task *driver.Task) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(self)
		path := filepath.Join(task.AllocDir, "setuid")
		if err := errors.Join(err, os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755|fs.ModeSetuid)); err != nil {
			t.Fatal(err)
		}
	}, "set-user-id program")
	expect(t, got, "set-user-id program", "ids: 65534 65534")
}

func TestTaskStartsNoProgramOnTheHostByTheKernel(t *testing.T) {
	t.Parallel()
	got := tried(t, "root", nil, nil, "release agent", "core pattern", "hostname", "timers")
	expect(t, got, "release agent", "EPERM")
	expect(t, got, "core pattern", "EROFS")
	expect(t, got, "hostname", "EROFS")
	expect(t, got, "timers", "EOF")
}

func TestTaskDoesNotChangeTheHostsFiles(t *testing.T) {
	t.Parallel()
	expect(t, tried(t, "root", nil, nil, "write etc"), "write etc", "EROFS")
	if _, err := os.Stat("/etc/escaped"); err == nil {
		t.Error("the task wrote a file of the host")
	}
}

func TestTaskInheritsNoDescriptor(t *testing.T) {
	t.Parallel()
	expect(t, tried(t, "root", nil, nil, "descriptors"), "descriptors", "")
}

func TestFirstProcessOutlivesItsTask(t *testing.T) {
	t.Parallel()
	got := tried(t, "root", nil, nil, "kill the first process", "ids")
	expect(t, got, "kill the first process", "")
	expect(t, got, "ids", "0 0")
}
