package dirs_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
)

// asNobody runs the test again in a process of user nobody, with dir as NOBODY_DIR, until the test ends. It returns
// when that process has said that it is at work.
func asNobody(t *testing.T, dir string, env ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	self := filepath.Join(reachable(t), "racer")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, b, 0o755); err != nil { //nolint:gosec // another user runs it
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^"+t.Name()+"$")
	c.Dir = "/"
	c.Env = append(env, "NOBODY_DIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("hostile process: %v", err)
	}
}

// reachable is a directory that every user can pass.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dirs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func reachableAlloc(t *testing.T) dirs.Alloc {
	t.Helper()
	a, err := dirs.New(filepath.Join(reachable(t), "allocs")).Alloc("a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Build(); err != nil {
		t.Fatal(err)
	}
	if err := a.BuildTask("web"); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDirectoriesAreNotGivenAwayThroughLinks(t *testing.T) {
	if dir := os.Getenv("NOBODY_DIR"); dir != "" {
		swapForLink(filepath.Join(dir, "local"), os.Getenv("VICTIM"))
	}
	for what, c := range map[string]struct {
		mode os.FileMode
		make func(path string) error
	}{
		"file":      {0o600, func(path string) error { return os.WriteFile(path, []byte("root only"), 0o600) }},
		"directory": {0o700, func(path string) error { return os.Mkdir(path, 0o700) }},
	} {
		t.Run(what, func(t *testing.T) {
			a := reachableAlloc(t)
			victim := filepath.Join(filepath.Dir(filepath.Dir(a.Dir())), "shadow")
			if err := errors.Join(c.make(victim), os.Remove(a.Task("web").Local())); err != nil {
				t.Fatal(err)
			}
			asNobody(t, a.Task("web").Dir(), "VICTIM="+victim)
			for i := range 20000 {
				_ = a.BuildTask("web")
				st, err := os.Stat(victim)
				if err != nil {
					t.Fatal(err)
				}
				if uid := st.Sys().(*syscall.Stat_t).Uid; uid != 0 || st.Mode().Perm() != c.mode {
					t.Fatalf("after %d restarts a %s of root has mode %v and owner %d", i, what, st.Mode(), uid)
				}
			}
		})
	}
}

// swapForLink puts a link to victim where a directory comes into being.
func swapForLink(at, victim string) {
	aside, link := at+".aside", at+".link"
	_ = os.Symlink(victim, link)
	_, _ = os.Stdout.WriteString("x")
	for {
		if syscall.Rename(at, aside) == nil {
			_ = syscall.Rename(link, at)
			for range 5000 {
			}
			_ = os.Remove(at)
			_ = os.Remove(aside)
			_ = os.Symlink(victim, link)
		}
	}
}

func TestDirectoriesWhoseNamesMatterStayTheAgents(t *testing.T) {
	if dir := os.Getenv("NOBODY_DIR"); dir != "" {
		for _, name := range []string{"logs", "logs/t.stdout.0"} {
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, "x")); err == nil {
				_, _ = os.Stdout.WriteString("b")
			}
		}
		_, _ = os.Stdout.WriteString("a")
		os.Exit(0)
	}
	a := reachableAlloc(t)
	write(t, a.Logs()+"/t.stdout.0", "x")
	asNobody(t, a.Shared())
	for _, name := range []string{a.Logs(), a.Logs() + "/t.stdout.0"} {
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingDirectoriesAreMadeAgain(t *testing.T) {
	a := built(t)
	task := a.Task("web")
	if err := os.Remove(task.Local()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(task.Secrets()); err != nil {
		t.Fatal(err)
	}
	write(t, task.Secrets(), "a file in the way is kept")
	if err := a.BuildTask("web"); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(task.Local()); err != nil || st.Mode() != os.ModeDir|0o777 {
		t.Errorf("%v %v", st, err)
	}
	if st, err := os.Stat(task.Secrets()); err != nil || st.IsDir() {
		t.Errorf("%v %v", st, err)
	}
	names, err := os.ReadDir(a.Dir())
	if err != nil || len(names) != 2 {
		t.Errorf("%v %v, want alloc and web", names, err)
	}
}

func TestLogsDirectoryIsNotALink(t *testing.T) {
	a := built(t)
	f, err := a.OpenLogs()
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if err := os.Rename(a.Logs(), a.Logs()+".x"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.OpenLogs(); !errors.Is(err, fault.NotFound) {
		t.Errorf("without a directory: %v", err)
	}
	for _, to := range []string{t.TempDir(), "logs.x", "../../../elsewhere/alloc/logs"} {
		if err := os.Symlink(to, a.Logs()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.OpenLogs(); err == nil {
			t.Errorf("logs are opened through a link to %s", to)
		}
		_ = os.Remove(a.Logs())
	}
}

// TestReadersDoNotWaitForPipes: a task swaps a file and a pipe under one name.
func TestReadersDoNotWaitForPipes(t *testing.T) {
	a := built(t)
	dir := a.Task("web").Local()
	write(t, dir+"/file", "x")
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.Link(dir+"/"+[]string{"pipe", "file"}[i%2], dir+"/next")
				_ = os.Rename(dir+"/next", dir+"/f")
				_ = os.Remove(dir + "/next")
			}
		}
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 2000 {
			_, _, _ = a.Read("web/local/f", 0, 0)
			_, _ = a.Stat("web/local/f")
			_, _ = a.List("web/local/f")
		}
	}()
	select {
	case <-read:
	case <-time.After(30 * time.Second):
		t.Error("a reader hangs")
	}
	close(stop)
	<-swapped
}

// TestDeepTreesCostLittleToRemove: a descriptor and a path for each level would be the agent's end.
func TestDeepTreesCostLittleToRemove(t *testing.T) {
	const levels, descriptors, heapMax = 3000, 40, 32 << 20
	a := built(t)
	fd, err := syscall.Open(a.Shared(), syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		err := syscall.Mkdirat(fd, strings.Repeat("d", 250), 0o777)
		next := -1
		if err == nil {
			next, err = syscall.Openat(fd, strings.Repeat("d", 250), syscall.O_DIRECTORY, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Close(fd)
		fd = next
	}
	_ = syscall.Close(fd)
	used := func() (int, uint64) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		open, _ := os.ReadDir("/proc/self/fd")
		return len(open), m.HeapAlloc
	}
	files, heap := used()
	done := make(chan error, 1)
	go func() { done <- a.Remove() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			over = true
		case <-tick.C:
		}
		if f, h := used(); f > files+descriptors || h > heap+heapMax {
			t.Fatalf("removing takes %d descriptors and %d MiB", f-files, (h-heap)>>20)
		}
	}
	if _, err := os.Stat(a.Dir()); !os.IsNotExist(err) {
		t.Errorf("after removal: %v", err)
	}
}

func TestFullDirectoriesAreRemoved(t *testing.T) {
	a := built(t)
	for i := range 5000 {
		write(t, a.Shared()+"/data/"+strconv.Itoa(i), "")
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Dir()); !os.IsNotExist(err) {
		t.Errorf("after removal: %v", err)
	}
}

// TestOddFilesAreErrorsOfTheAsker: what a task can make of its files is never a failure of the node.
func TestOddFilesAreErrorsOfTheAsker(t *testing.T) {
	a := reachableAlloc(t)
	data := filepath.Join(a.Shared(), "data")
	leased := filepath.Join(data, "leased")
	for _, err := range []error{
		os.Symlink("loop", data+"/loop"), os.WriteFile(leased, []byte("x"), 0o600), syscall.Mkfifo(data+"/pipe", 0o600), os.WriteFile(data+"/file", nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(leased, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases of files here: %v", err)
	}
	signal.Ignore(syscall.SIGIO)
	defer signal.Reset(syscall.SIGIO)
	for name, want := range map[string]fault.Class{
		"loop": fault.Invalid, "loop/x": fault.Invalid, "leased": fault.Conflict, "pipe": fault.Invalid, "file/x": fault.NotFound,
		strings.Repeat("n", 300): fault.NotFound, strings.Repeat("n/", 5000): fault.NotFound,
	} {
		if _, _, err := a.Read("alloc/data/"+name, 0, 0); !errors.Is(err, want) {
			t.Errorf("read of %.20s: %v, want %v", name, err, want)
		}
		if _, err := a.List("alloc/data/" + name); !errors.Is(err, want) {
			t.Errorf("list of %.20s: %v, want %v", name, err, want)
		}
	}
}
