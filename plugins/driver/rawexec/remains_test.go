package rawexec_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// Requests of the FUSE protocol.
const (
	fuseAttributes = 3
	fuseInit       = 26
)

// silentFuse mounts a file system whose server takes requests and never answers: a process that waits for it cannot be killed.
// asked is closed when the first request has come.
func silentFuse(t *testing.T) (at string, asked chan struct{}, end func()) {
	t.Helper()
	return fuseThat(t, false)
}

// fuseThat mounts one that answers nothing, or with reportsRoot only that its root is a directory.
func fuseThat(t *testing.T, reportsRoot bool) (at string, asked chan struct{}, end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	at = t.TempDir()
	if err := unix.Mount("silent", at, "fuse.silent", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		unix.Close(fd)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	asked = make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1<<17)
		for notified := false; ; {
			n, err := unix.Read(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT):
				continue
			case err != nil:
				return
			}
			switch op := binary.LittleEndian.Uint32(buf[4:n]); {
			case op == fuseInit:
				out := make([]byte, 80)
				binary.LittleEndian.PutUint32(out, 80)
				copy(out[8:16], buf[8:16])
				binary.LittleEndian.PutUint32(out[16:], 7)
				binary.LittleEndian.PutUint32(out[20:], 31)
				_, _ = unix.Write(fd, out)
			case op == fuseAttributes && reportsRoot:
				out := make([]byte, 16+16+88) // the header, for how long it is valid, the attributes
				binary.LittleEndian.PutUint32(out, uint32(len(out)))
				copy(out[8:16], buf[8:16])
				binary.LittleEndian.PutUint64(out[32:], 1)
				binary.LittleEndian.PutUint32(out[32+60:], unix.S_IFDIR|0o755)
				_, _ = unix.Write(fd, out)
			case !notified:
				notified = true
				close(asked)
			}
		}
	}()
	end = endsOnce(t, at, fd, served)
	return at, asked, end
}

// endsOnce returns what unmounts a file system that a test serves, at the end of the test at the latest.
func endsOnce(t *testing.T, at string, fd int, served <-chan struct{}) func() {
	t.Helper()
	end := sync.OnceFunc(func() {
		_ = unix.Unmount(at, unix.MNT_FORCE)
		_ = unix.Unmount(at, unix.MNT_DETACH)
		<-served
		_ = unix.Close(fd)
	})
	t.Cleanup(end)
	return end
}

// threadEnv makes this test binary a task of which another thread than the first opens a file.
const threadEnv = "RAWEXEC_TEST_THREAD"

func threadMain() int {
	go func() {
		runtime.LockOSThread()
		for unix.Gettid() == os.Getpid() {
			done := make(chan struct{})
			go func() { // on another one, while this goroutine has the first
				defer close(done)
				runtime.LockOSThread()
				_, _ = os.ReadFile(os.Getenv(threadEnv))
			}()
			<-done
		}
		_, _ = os.ReadFile(os.Getenv(threadEnv))
	}()
	time.Sleep(time.Minute)
	return 0
}

// What the kernel cannot end is reported as left, also after the exit of the main process, to every agent that connects.
func TestProcessesThatTheKernelCannotEndAreTold(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	away := `for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs; do echo $$ >$f; done 2>/dev/null; `
	for name, c := range map[string]struct {
		script    string
		noCgroups bool
		main      bool // it is the main process that is stuck
		stuck     string
	}{
		"main":                       {`exec cat "$AT/x"`, false, true, "cat"},
		"child":                      {`cat "$AT/x" & sleep 1000`, false, false, "cat"},
		"child without a cgroup":     {`setsid env -i /bin/cat "$AT/x" & sleep 1000`, true, false, "cat"},
		"child that left its cgroup": {`setsid sh -c '` + away + `exec cat "$AT/x"' & sleep 1000`, false, false, "cat"},
		"a thread":                   {threadEnv + `="$AT/x" exec "$SELF"`, true, true, "rawexec.test"},
		"a thread of a child":        {threadEnv + `="$AT/x" "$SELF" & sleep 1000`, false, false, "rawexec.test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir, func(conf *rawexec.Config) { conf.NoCgroups = c.noCgroups })
			at, asked, end := silentFuse(t)
			task := suite.NewTask(t, sh(c.script))
			task.ID = task.AllocID + "/" + name
			task.Env["AT"], task.Env["SELF"] = at, self
			h, err := d.Start(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			supervisor := pidOf(t, d, task.ID, "supervisor_pid")
			select {
			case <-asked:
			case <-time.After(30 * time.Second):
				t.Fatal("the task never asked")
			}
			stopped := make(chan error, 1)
			go func() { stopped <- d.Stop(bounded(t), task.ID, "SIGKILL", 0) }()
			left := untilStuck(t, d, task.ID, c.stuck)
			if !c.main {
				<-stopped
				if x, err := d.Wait(bounded(t), task.ID); err != nil || x.Code != 128+int(unix.SIGKILL) {
					t.Fatalf("the main process has ended: %+v, %v", x, err)
				}
				_ = d.Close() // the agent ends, and another one comes
				d = newDriver(t, dir, func(conf *rawexec.Config) { conf.NoCgroups = c.noCgroups })
				if err := d.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
				left = d.Remains(task.ID)
			}
			if len(left) != 1 || left[0].Name != c.stuck || !strings.Contains(driver.Explain(left), "stuck in the kernel (D state") {
				t.Errorf("left: %+v", left)
			}
			end()
			suite.Eventually(t, "nothing is left", func() bool { return len(d.Remains(task.ID)) == 0 })
			if c.main {
				if err := <-stopped; err != nil && !errors.Is(err, fault.Unavailable) {
					t.Error(err)
				}
				if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Signal != int(unix.SIGKILL) || x.Err != "" {
					t.Errorf("exit %+v, %v", x, err)
				}
			}
			if err := d.Destroy(bounded(t), task.ID); err != nil {
				t.Error(err)
			}
			suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
			if left, _ := filepath.Glob("/sys/fs/cgroup/*/nomad.slice/" + strings.NewReplacer("/", "_", " ", "_").Replace(task.ID) + "-*"); len(left) > 0 {
				t.Errorf("cgroups are left: %v", left)
			}
		})
	}
}

// Who keeps the lease of a process that may write still is not killed for it.
func TestLeaseOfATaskThatTheKernelDoesNotEndIsKept(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	at, asked, end := silentFuse(t)
	_, target := published(t)
	task := leasedTask(t, target, `exec cat "$AT/x"`, api.LeaseTerm{Term: time.Minute})
	task.Env["AT"] = at
	_, supervisor := begin(t, d, task)
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Fatal("the task never asked")
	}
	err := d.Stop(bounded(t), task.ID, "SIGKILL", 0)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "(cat) is stuck in the kernel (D state") {
		t.Errorf("stop: %v", err)
	}
	if hasEnded(supervisor) {
		t.Error("no process keeps the lease")
	}
	if err := d.Renew(task.ID, bootTime(t)); err != nil {
		t.Errorf("renew: %v", err)
	}
	end()
	if err := d.Stop(suite.Context(t), task.ID, "SIGKILL", 0); err != nil {
		t.Errorf("stop: %v", err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Signal != int(unix.SIGKILL) || x.Err != "" {
		t.Errorf("exit %+v %v", x, err)
	}
}

// It is not known how the task ended, and what it left may still write: whether its handle was stored or not.
func TestStuckOrphansOfAVanishedSupervisingProcessAreTold(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"with a handle": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			without := func(conf *rawexec.Config) { conf.NoCgroups = true }
			d := newDriver(t, dir, without)
			at, asked, end := silentFuse(t)
			task := suite.NewTask(t, sh(`setsid cat "$AT/x" & sleep 1000`))
			task.Env["AT"] = at
			h, supervisor := begin(t, d, task)
			select {
			case <-asked:
			case <-time.After(30 * time.Second):
				t.Fatal("the task never asked")
			}
			_ = d.Close()
			if err := unix.Kill(supervisor, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
			d = newDriver(t, dir, without)
			if !stored {
				if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Unavailable) {
					t.Errorf("start in addition to what is left: %v, want unavailable", err)
				}
				if _, err := d.Prune(suite.Context(t), nil, true); !errors.Is(err, fault.Unavailable) {
					t.Errorf("prune what is left: %v, want unavailable", err)
				}
				var err error
				if h, err = d.Find(suite.Context(t), task.ID); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Recover(suite.Context(t), h); err != nil {
				t.Fatal(err)
			}
			if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Err == "" {
				t.Errorf("exit %+v %v, want an unknown outcome", x, err)
			}
			if left := d.Remains(task.ID); len(left) != 1 || !left[0].Stuck() {
				t.Errorf("left: %+v", left)
			}
			end()
			suite.Eventually(t, "nothing is left", func() bool { return len(d.Remains(task.ID)) == 0 })
			if err := d.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

func untilStuck(t *testing.T, d *rawexec.Driver, id, name string) []driver.Remain {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := d.Remains(id)
		if len(left) == 1 && left[0].Stuck() && left[0].Name == name {
			return left
		}
		if time.Now().After(deadline) {
			t.Skipf("this kernel ends it: %+v", left)
		}
	}
}
