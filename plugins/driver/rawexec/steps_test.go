package rawexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// sharing is a volume that two allocations use, one of which writes to it all the time under a lease that is renewed.
type sharing struct {
	d        *rawexec.Driver
	dir      string
	source   string
	task     *driver.Task
	target   string
	main     int
	lastFrom int64
	end      func()
}

func sharedVolume(t *testing.T) *sharing {
	t.Helper()
	s := &sharing{dir: t.TempDir()}
	s.d = newDriver(t, s.dir)
	s.source, s.target = published(t)
	s.task = leasedTask(t, s.target, writing, api.LeaseTerm{Term: 6 * time.Second, WriteBack: time.Second})
	s.task.ID, s.task.AllocID = s.task.ID+"/stays", "stays"
	begin(t, s.d, s.task)
	s.main = pidOf(t, s.d, s.task.ID, "pid")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				from := bootTime(t)
				if err := s.d.Renew(s.task.ID, from); err != nil {
					t.Errorf("renew: %v", err)
					return
				}
				s.lastFrom = from
			}
		}
	}()
	s.end = sync.OnceFunc(func() { close(stop); <-ended })
	t.Cleanup(s.end)
	return s
}

// goesOn reports that the other allocation has its volume and writes to it.
func (s *sharing) goesOn(t *testing.T) {
	t.Helper()
	journal := filepath.Join(s.source, "journal")
	before := size(journal)
	suite.Eventually(t, "the other one writes", func() bool { return size(journal) > before })
	if hasEnded(s.main) || !isMounted(t, s.target) {
		t.Fatal("the other one has lost its volume")
	}
}

// publish shows the volume at another target.
func (s *sharing) publish(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	if err := unix.Mount(s.source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	return target
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (out []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, l := range lists {
		raw, _ := os.ReadFile(l)
		for f := range strings.FieldsSeq(string(raw)) {
			child, _ := strconv.Atoi(f)
			out = append(out, child)
		}
	}
	return out
}

// lookPause is much shorter than what a process does between two kill points.
const lookPause = 100 * time.Microsecond

// killNext kills the next process that this one starts a time after it has appeared.
func killNext(ctx context.Context, after time.Duration) (killed chan struct{}) {
	before := childrenOf(os.Getpid())
	killed = make(chan struct{})
	go func() {
		defer close(killed)
		for ctx.Err() == nil {
			for _, pid := range childrenOf(os.Getpid()) {
				if slices.Contains(before, pid) {
					continue
				}
				time.Sleep(after)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return
			}
			time.Sleep(lookPause)
		}
	}()
	return killed
}

// marked are the processes that have a word in their environment.
func marked(word string) (out []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		raw, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && strings.Contains(string(raw), word) && !hasEnded(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// The supervising process of one of two allocations that share a volume is killed at each step of its life. Nothing of
// its task is left, the volume can be unmounted, and the other allocation keeps its lease and its mount. EVERY_STEP=1 in the
// environment asks for all kill points, and not for some of each kind.
func TestSupervisingProcessIsKilledAtEachStepBesideAnotherUser(t *testing.T) {
	const script = `setsid sh -c 'while :; do echo x >>v/other; sleep 0.01; done' & while :; do echo x >>v/mine; sleep 0.01; done`
	type step struct {
		script string
		term   time.Duration // of the lease, which is not renewed
		after  time.Duration // the process appeared
	}
	steps, every, everyEnd := map[string]step{}, 5, 3
	if os.Getenv("EVERY_STEP") != "" {
		every, everyEnd = 1, 1
	}
	for i := 0; i < 16; i += every {
		after := time.Duration(i) * time.Millisecond
		steps[fmt.Sprintf("start %s", after)] = step{script, time.Minute, after}
		steps[fmt.Sprintf("end %s", after)] = step{"exit 0", time.Minute, after}
	}
	for i := 0; i < 8; i += everyEnd {
		after := 500*time.Millisecond + time.Duration(i)*5*time.Millisecond
		steps[fmt.Sprintf("end of the lease %s", after)] = step{script, 500 * time.Millisecond, after}
	}
	s := sharedVolume(t)
	left := files(t, s.dir)
	for name, c := range steps {
		t.Run(name, func(t *testing.T) {
			target, word := s.publish(t), "steps="+strings.ReplaceAll(t.Name(), " ", "-")
			task := leasedTask(t, target, c.script, api.LeaseTerm{Term: c.term})
			task.ID, task.AllocID = task.ID+"/killed", "killed"
			task.Env["steps"] = strings.TrimPrefix(word, "steps=")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			killed := killNext(ctx, c.after)
			h, err := s.d.Start(suite.Context(t), task)
			if err != nil {
				cancel() // there may have been nothing to kill
			}
			<-killed
			if err == nil {
				if _, err := s.d.Wait(suite.Context(t), task.ID); err != nil {
					t.Errorf("wait: %v", err)
				}
				if h.TaskID != task.ID {
					t.Errorf("the handle is of %s", h.TaskID)
				}
				if err := s.d.Destroy(suite.Context(t), task.ID); err != nil && !errors.Is(err, fault.NotFound) {
					t.Errorf("destroy: %v", err)
				}
			}
			suite.Eventually(t, "nothing of it runs", func() bool { return len(marked(word)) == 0 })
			s.d.Keep(0, func(alloc string) bool { return alloc == "stays" })
			suite.Eventually(t, "no files of it are left", func() bool {
				s.d.Keep(0, func(alloc string) bool { return alloc == "stays" })
				return slices.Equal(files(t, s.dir), left)
			})
			suite.Eventually(t, "the volume can be unmounted", func() bool {
				err := unix.Unmount(target, 0)
				return err == nil || errors.Is(err, unix.EINVAL) // it is not mounted any more
			})
			mine := filepath.Join(s.source, "mine")
			before := size(mine) + size(filepath.Join(s.source, "other"))
			s.goesOn(t)
			if size(mine)+size(filepath.Join(s.source, "other")) != before {
				t.Error("a process still writes")
			}
		})
	}
	s.end()
	from := s.lastFrom
	suite.Eventually(t, "the end of its lease", func() bool { return !isMounted(t, s.target) && hasEnded(s.main) })
	if late := bootTime(t) - from - int64(givenAway(s.task.Lease.Term)); late > 0 {
		t.Errorf("the other one had its volume for %s more when another node might have it", time.Duration(late))
	}
	if err := s.d.Destroy(suite.Context(t), s.task.ID); err != nil {
		t.Error(err)
	}
	suite.Eventually(t, "no files are left", func() bool { return len(files(t, s.dir)) == 0 })
}
