package dirs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
)

// inMemory makes an allocation with the tasks web and db, whose secrets are in memory.
func inMemory(t *testing.T) dirs.Alloc {
	t.Helper()
	a, err := dirs.New(filepath.Join(reachable(t), "allocs")).InMemory().Alloc("a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Build(), a.BuildTask("web"), a.BuildTask("db"), a.MountSecrets("web", 0), a.MountSecrets("db", 3)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.UnmountSecrets() })
	if mountsBelow(t, a.Dir()) == 0 {
		t.Skip("needs the right to mount")
	}
	return a
}

func mountsBelow(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), " "+dir+"/")
}

func TestSecretsAreInMemory(t *testing.T) {
	a := inMemory(t)
	for task, mb := range map[string]uint64{"web": 1, "db": 3} {
		dir := a.Task(task).Secrets()
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC || st.Blocks*uint64(st.Bsize) != mb<<20 {
			t.Errorf("%s: %v, %d blocks of a file system of type %x", task, err, st.Blocks, st.Type)
		}
		if want := int64(unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV); st.Flags&want != want {
			t.Errorf("%s: flags %x", task, st.Flags)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o777 {
			t.Errorf("%s: %v %v", task, info.Mode(), err)
		}
		if info, err := os.Stat(dir + "/.nomad-mount"); err != nil || info.Size() != 0 {
			t.Errorf("%s: marker: %v %v", task, info, err)
		}
		if err := os.WriteFile(dir+"/big", make([]byte, mb<<20+1), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: more than its size: %v", task, err)
		}
		if !a.SecretsFull(task) || os.Remove(dir+"/big") != nil || a.SecretsFull(task) {
			t.Errorf("%s: it is not known to be full, or to have room", task)
		}
	}
}

// TestMountedSecretsAreKept is another attempt, or another agent.
func TestMountedSecretsAreKept(t *testing.T) {
	a := inMemory(t)
	write(t, a.Task("web").Secrets()+"/token", "x")
	before := mountsBelow(t, a.Dir())
	if err := errors.Join(a.BuildTask("web"), a.MountSecrets("web", 0)); err != nil {
		t.Fatal(err)
	}
	if n := mountsBelow(t, a.Dir()); n != before {
		t.Errorf("%d mounts, had %d", n, before)
	}
	if _, err := os.Stat(a.Task("web").Secrets() + "/token"); err != nil {
		t.Error(err)
	}
	if b, _, err := a.Read("web/secrets/token", 0, 0); !errors.Is(err, fault.Denied) {
		t.Errorf("a user reads %q, %v", b, err)
	}
}

func TestSecretsInUseAreWipedAndDetached(t *testing.T) {
	a := inMemory(t)
	dir := a.Task("web").Secrets()
	write(t, dir+"/token", "x")
	if err := os.MkdirAll(dir+"/a/b/c", 0o755); err != nil {
		t.Fatal(err)
	}
	busy, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := a.UnmountSecrets(); err != nil {
		t.Fatal(err)
	}
	if n := mountsBelow(t, a.Dir()); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	if names, _ := busy.Readdirnames(-1); len(names) > 0 {
		t.Errorf("%q is left to who has the directory open", names)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsInOtherMountNamespaces: another task holds a copy of the mount.
func TestSecretsInOtherMountNamespaces(t *testing.T) {
	a := inMemory(t)
	dir := a.Task("web").Secrets()
	write(t, dir+"/token", "x")
	other := exec.Command("/bin/sh", "-c", "echo; exec sleep 1000")
	other.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	begun, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	there := fmt.Sprintf("/proc/%d/root%s/", other.Process.Pid, dir)
	if _, err := os.Stat(there + "token"); err != nil {
		t.Fatal(err)
	}
	if err := a.UnmountSecrets(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(there + "token"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy contains the secret: %v", err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestRemovalUnmountsSecrets(t *testing.T) {
	a := inMemory(t)
	if err := a.MountSecrets("none", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a task without a directory: %v", err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if n := mountsBelow(t, a.Dir()); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

// TestMountsOfOthersStay: what is mounted in or over a secrets directory may be data.
func TestMountsOfOthersStay(t *testing.T) {
	a := inMemory(t)
	source := t.TempDir()
	write(t, source+"/data", "precious")
	for what, target := range map[string]string{"inside": a.Task("web").Secrets() + "/volume", "over": a.Task("db").Secrets()} {
		t.Run(what, func(t *testing.T) {
			if err := os.MkdirAll(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("mount: %v", err)
			}
			defer func() { _ = unix.Unmount(target, unix.MNT_DETACH) }()
			if err := a.Remove(); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), target) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(source + "/data"); err != nil {
				t.Error(err)
			}
			if err := unix.Unmount(target, 0); err != nil {
				t.Errorf("the mount is away: %v", err)
			}
		})
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsAreNotMountedThroughLinks: a task has a link in the place of its directory.
func TestSecretsAreNotMountedThroughLinks(t *testing.T) {
	a := inMemory(t)
	if err := a.UnmountSecrets(); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(filepath.Dir(a.Dir()), "victim")
	if err := errors.Join(os.Mkdir(victim, 0o700), os.Remove(a.Task("web").Secrets()), os.Symlink(victim, a.Task("web").Secrets())); err != nil {
		t.Fatal(err)
	}
	if err := a.MountSecrets("web", 0); !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
	if n := mountsBelow(t, victim) + mountsBelow(t, filepath.Dir(a.Dir())); n != 0 {
		t.Errorf("%d mounts", n)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
}
