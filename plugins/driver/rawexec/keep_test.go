package rawexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// leasedTask runs a script with a volume at v under a lease that begins now.
func leasedTask(t *testing.T, target, script string, term api.LeaseTerm) *driver.Task {
	t.Helper()
	task := suite.NewTask(t, sh(script))
	task.AllocID = "a"
	task.Mounts = []driver.Mount{{Source: target, Destination: "v"}}
	task.Lease = &driver.Lease{Term: term, From: bootTime(t), Unmount: []string{target}}
	return task
}

func begin(t *testing.T, d *rawexec.Driver, task *driver.Task) (h *driver.Handle, supervisor int) {
	t.Helper()
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	return h, pidOf(t, d, task.ID, "supervisor_pid")
}

func needed(string) bool    { return true }
func notNeeded(string) bool { return false }

// files lists what is in the state directory, but for the directories.
func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(dir + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// until waits for a time of the task's lease.
func until(t *testing.T, task *driver.Task, after time.Duration) {
	t.Helper()
	suite.Eventually(t, "the time", func() bool { return bootTime(t) >= task.Lease.From+int64(after) })
}

// The agent is dead and the task ends by itself: its volume is taken away within the lease all the same.
func TestLeaseIsKeptAfterTheTaskHasEndedWithoutAnAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	_, target := published(t)
	task := leasedTask(t, target, `echo x >>v/journal; sleep 1`, api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second})
	h, supervisor := begin(t, d, task)
	main := pidOf(t, d, task.ID, "pid")
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) })
	if !isMounted(t, target) {
		t.Error("the volume was taken away within its lease")
	}
	until(t, task, task.Lease.Term.Term)
	if isMounted(t, target) {
		t.Error("the lease has ended, and the volume is still mounted")
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := again.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() || x.LeaseEnded {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := again.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// The agent hears the exit at once; the process that keeps the lease goes when the volume is unmounted.
func TestLeaseOfAnEndedTaskIsRenewedAndLetGo(t *testing.T) {
	t.Parallel()
	term := api.LeaseTerm{Term: 3 * time.Second}
	for name, c := range map[string]struct {
		away      bool // the agent is away when the task ends
		destroyed bool // the agent dies after it has forgotten the task
	}{
		"with an agent":                      {},
		"ended while no agent was there":     {away: true},
		"an agent that died after the end":   {destroyed: true},
		"and one that has been away as well": {away: true, destroyed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			source, target := published(t)
			end := filepath.Join(source, "end")
			task := leasedTask(t, target, `while ! [ -e v/end ]; do sleep 0.02; done; exit 3`, term)
			h, supervisor := begin(t, d, task)
			main := pidOf(t, d, task.ID, "pid")
			if c.away {
				_ = d.Close()
			}
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.away {
				suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) })
				d = newDriver(t, dir)
				if err := d.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
			}
			if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 || x.Err != "" {
				t.Fatalf("exit %+v %v", x, err)
			}
			if err := d.Destroy(suite.Context(t), task.ID); err != nil {
				t.Fatal(err)
			}
			if c.destroyed {
				_ = d.Close()
				d = newDriver(t, dir)
				if err := d.Recall(suite.Context(t)); err != nil {
					t.Fatal(err)
				}
			}
			ended, err := d.Prune(suite.Context(t), nil, true)
			if err != nil || len(ended) > 0 {
				t.Errorf("pruned %v %v", ended, err)
			}
			suite.Eventually(t, "its first lease has ended", func() bool {
				d.Keep(bootTime(t), needed)
				return bootTime(t) > task.Lease.From+2*int64(term.Term)
			})
			if hasEnded(supervisor) || !isMounted(t, target) {
				t.Fatal("the volume was taken away within its lease")
			}
			d.Keep(0, notNeeded)
			suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
			if !isMounted(t, target) {
				t.Error("it was unmounted by a process that was let go")
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// A task that is started again and again leaves no process behind for each attempt, nor do two tasks of one allocation.
func TestLeaseIsKeptByOneProcessAfterTheEnd(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	term := api.LeaseTerm{Term: time.Minute}
	var supervisors []int
	for range 3 {
		task := leasedTask(t, target, "sleep 0.1", term)
		task.ID += "/" + string(rune('0'+len(supervisors)))
		_, supervisor := begin(t, d, task)
		supervisors = append(supervisors, supervisor)
		if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
			t.Fatal(err)
		}
		if err := d.Destroy(suite.Context(t), task.ID); err != nil {
			t.Fatal(err)
		}
		if hasEnded(supervisor) {
			t.Error("no process keeps the lease")
		}
	}
	last := supervisors[2]
	suite.Eventually(t, "the earlier ones have ended", func() bool { return hasEnded(supervisors[0]) && hasEnded(supervisors[1]) })
	other := leasedTask(t, target, "sleep 1000", term)
	other.ID += "/other"
	begin(t, d, other)
	suite.Eventually(t, "the last one has ended", func() bool { return hasEnded(last) })
	if !isMounted(t, target) {
		t.Error("the volume was taken away")
	}
}

func TestTaskWithoutALeaseIsNotSaidToKeepOne(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	begin(t, d, task)
	if err := d.Renew(task.ID, 0); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("renew: %v", err)
	}
}

// Whose lease ends first leaves the volume to the other task of the allocation, and what that writes can be cut off.
func TestVolumeStaysWhileAnotherTaskHasTheLease(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"killed": "sleep 1000", "ended by itself": "sleep 0.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir())
			source, target := published(t)
			first := leasedTask(t, target, script, api.LeaseTerm{Term: 2 * time.Second})
			second := leasedTask(t, target, writing, api.LeaseTerm{Term: 6 * time.Second, WriteBack: time.Second})
			second.ID += "/second"
			_, one := begin(t, d, first)
			_, two := begin(t, d, second)
			suite.Eventually(t, "the first has ended", func() bool { return hasEnded(one) })
			if !isMounted(t, target) {
				t.Error("the volume was unmounted under the other task")
			}
			before := size(filepath.Join(source, "journal"))
			suite.Eventually(t, "the second writes", func() bool { return size(filepath.Join(source, "journal")) > before })
			suite.Eventually(t, "the second has ended", func() bool { return hasEnded(two) })
			if bootTime(t) > second.Lease.From+int64(second.Lease.Term.Term) || isMounted(t, target) {
				t.Error("it was not taken away in time")
			}
		})
	}
}

// inContainer opens a file as a process does that has copies of the host's mounts: the host can unmount it under it.
func inContainer(t *testing.T, path string) *os.File {
	t.Helper()
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened)
	var open func()
	open = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // whose mounts are those of the test
			defer runtime.UnlockOSThread()
			go open()
			<-t.Context().Done()
			return
		}
		// It stays locked: the thread ends with the goroutine.
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		f, err2 := os.Create(path)
		done <- opened{f, errors.Join(err, err2)}
	}
	go open()
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	t.Cleanup(func() { o.f.Close() })
	return o.f
}

// No process ends the task of another driver when the agent is dead: what it writes is cut off from the storage.
func TestVolumeThatOthersUseIsCutOffAndNotHidden(t *testing.T) {
	d := newDisk(t, "ext4")
	r := newDriver(t, t.TempDir())
	term := api.LeaseTerm{Term: 6 * time.Second, WriteBack: 3 * time.Second}
	task := d.task(t, "echo synced >v/mine; sleep 1000", term)
	task.Lease.Shared = true
	other := inContainer(t, filepath.Join(d.target, "other"))
	_, supervisor := begin(t, r, task)
	main := pidOf(t, r, task.ID, "pid")
	suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) })
	if !isMounted(t, d.target) || !isMounted(t, d.staging) {
		t.Error("it was unmounted while a process uses it")
	}
	if _, err := other.WriteString("late"); err != nil {
		t.Errorf("it was cut off too early: %v", err)
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
	if bootTime(t) > task.Lease.From+int64(term.Term) {
		t.Error("it ended after the lease")
	}
	if isMounted(t, d.target) || isMounted(t, d.staging) {
		t.Error("it is mounted after its lease")
	}
	if _, err := other.WriteString("later"); err == nil {
		t.Error("a process can write after the lease")
	}
	other.Close()
	if text, err := d.again(t, "mine"); err != nil || text != "synced\n" {
		t.Errorf("what was written back is %q, %v", text, err)
	}
}

// After a sleep of the host the lease has ended and the task has failed, both at once.
func TestTaskThatEndsTogetherWithItsLeaseIsTakenFromItsVolume(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	task := leasedTask(t, target, "sleep 1000", api.LeaseTerm{Term: 2 * time.Second})
	_, supervisor := begin(t, d, task)
	main := pidOf(t, d, task.ID, "pid")
	if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(supervisor, syscall.SIGCONT) })
	if err := syscall.Kill(main, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, task, task.Lease.Term.Stop())
	if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	x, err := d.Wait(suite.Context(t), task.ID)
	if err != nil || !x.LeaseEnded {
		t.Errorf("exit %+v %v", x, err)
	}
	if isMounted(t, target) {
		t.Error("the volume is still mounted")
	}
}

// free reports whether the device is mounted nowhere, in whatever namespace.
func (d *disk) free() bool {
	f, err := os.OpenFile(d.dev, os.O_RDWR|syscall.O_EXCL, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// What an ended task leaves is not in the way of the unmount.
func TestProcessThatKeepsALeaseKeepsNoVolumeBusy(t *testing.T) {
	d := newDisk(t, "ext4")
	r := newDriver(t, t.TempDir())
	task := d.task(t, "echo x >v/flag", api.LeaseTerm{Term: time.Minute})
	_, supervisor := begin(t, r, task)
	if _, err := r.Wait(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.target, d.staging} {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Errorf("unmount %s: %v", path, err)
		}
	}
	// No process has the device open when its file system is unmounted everywhere. Tests of other packages copy the mounts of the
	// host for a moment.
	suite.Eventually(t, "the device is free", d.free)
	if hasEnded(supervisor) {
		t.Error("no process keeps the lease")
	}
	for _, fd := range []string{"fd", "cwd", "root"} {
		links, _ := filepath.Glob("/proc/" + strconv.Itoa(supervisor) + "/" + fd + "/*")
		for _, l := range links {
			if to, _ := os.Readlink(l); strings.HasPrefix(to, task.Dir) || strings.HasPrefix(to, task.Logs.Dir) && task.Logs.Dir != "" {
				t.Errorf("it has %s open", to)
			}
		}
	}
	r.Keep(0, notNeeded)
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
}

// A process that keeps a lease may be killed as well: its agent collects it, and the next attempt has the lease.
func TestKilledProcessThatKeptALeaseIsInNobodysWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	_, target := published(t)
	task := leasedTask(t, target, "exit 3", api.LeaseTerm{Term: time.Minute})
	_, supervisor := begin(t, d, task)
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 {
		t.Fatalf("exit %+v %v", x, err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "it was collected", func() bool { return !exists("/proc/" + strconv.Itoa(supervisor)) })
	suite.Eventually(t, "no process keeps it", func() bool { return errors.Is(d.Renew(task.ID, 0), fault.NotFound) })
	d.Keep(bootTime(t), needed)
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	task.ID += "/next"
	begin(t, d, task)
	if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	d.Keep(0, notNeeded)
	suite.Eventually(t, "no files are left", func() bool { return len(files(t, dir)) == 0 })
}

// The agent was killed between the record of a task's end and the cleaning: no handle names the attempt any more.
func TestLeaseOfATaskThatNobodyForgotIsTakenUp(t *testing.T) {
	t.Parallel()
	for name, sought := range map[string]bool{"and never sought": false, "and found by its task": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			_, target := published(t)
			task := leasedTask(t, target, "exit 3", api.LeaseTerm{Term: time.Minute})
			_, supervisor := begin(t, d, task)
			if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
			d = newDriver(t, dir)
			if err := d.Recall(suite.Context(t)); err != nil {
				t.Fatal(err)
			}
			if ended, err := d.Prune(suite.Context(t), nil, false); err != nil || len(ended) > 0 {
				t.Errorf("pruned %v %v", ended, err)
			}
			if sought {
				h, err := d.Find(suite.Context(t), task.ID)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
				if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 {
					t.Errorf("exit %+v %v", x, err)
				}
				if err := d.Destroy(suite.Context(t), task.ID); err != nil {
					t.Error(err)
				}
			}
			d.Keep(bootTime(t), needed)
			if hasEnded(supervisor) {
				t.Error("no process keeps the lease")
			}
			d.Keep(0, notNeeded)
			suite.Eventually(t, "the supervising process was let go", func() bool { return hasEnded(supervisor) })
			if ended, err := d.Prune(suite.Context(t), nil, true); err != nil || len(ended) > 0 {
				t.Errorf("pruned %v %v", ended, err)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}
