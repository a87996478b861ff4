package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// covered puts a FUSE file system without a server over the path. Whoever asks it waits; once die is
// called it answers with an error, as the mount of a server that is gone does.
func covered(t *testing.T, path string) (die func()) {
	t.Helper()
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	die = sync.OnceFunc(func() { _ = syscall.Close(fd) })
	t.Cleanup(func() { // before what walks through the mounts
		die()
		_ = syscall.Unmount(path, syscall.MNT_DETACH)
	})
	if err := syscall.Mount("hangs", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	return die
}

// published is where the only volume of a host is published.
func published(t *testing.T, h *kit.Host) string {
	t.Helper()
	for _, m := range h.VolumeMounts() {
		if strings.Contains(m, "/hp/t/") {
			return m
		}
	}
	t.Fatalf("nothing is published: %q", h.VolumeMounts())
	return ""
}

// event waits until an event of the allocation's task has the kind and the words.
func (b *bed) event(alloc, kind, words string) time.Duration {
	b.t.Helper()
	return b.Until(40*time.Second, "event "+kind, func() error {
		info, _, err := b.API.Allocations().Info(alloc, nil)
		if err != nil {
			return err
		}
		var had []string
		for _, e := range info.TaskStates["main"].Events {
			if e.Type == kind && strings.Contains(e.DisplayMessage, words) {
				return nil
			}
			had = append(had, e.Type+": "+e.DisplayMessage)
		}
		return fmt.Errorf("events are %q", had)
	})
}

func TestFault20MountHangsAndDies(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{true, false} {
		t.Run(map[bool]string{true: "dies", false: "hangs"}[dead], func(t *testing.T) {
			b := newBed(t, 1, true)
			h := b.nodes[0]
			b.volume("v1", map[string]any{"OnMountDead": "restart"})
			j := writer("w", "v1")
			b.Register(j)
			alloc := b.Running("w", 1)
			b.beats("v1", alloc.ID)
			if die := covered(t, published(t, h)); dead {
				die()
			}
			noticed := b.event(alloc.ID, "Volume Unhealthy", "v1")
			// The agent does other work meanwhile.
			b.volume("v2", nil)
			began := time.Now()
			b.Register(writer("other", "v2"))
			b.beats("v2", b.Running("other", 1).ID)
			other := time.Since(began)
			b.Until(40*time.Second, "the task to begin anew", func() error {
				if n := strings.Count(b.journal("v1"), "start "+alloc.ID); n < 2 {
					return fmt.Errorf("started %d times: %s", n, b.tell("w"))
				}
				return nil
			})
			b.event(alloc.ID, "Volume Healthy", "v1")
			b.beats("v1", alloc.ID)
			b.Stop("w", false)
			b.Stop("other", false)
			b.clean()
			b.within("noticing", noticed, 30*time.Second)
			b.within("starting another job", other, 5*time.Second)
			b.row(20, "mount "+map[bool]string{true: "dies", false: "hangs"}[dead]+" under a task", fmt.Sprintf("noticed after %s; task begun anew; another job starts in %s meanwhile", short(noticed), short(other)),
				"noticed <= 30 s, policy carried out, agent never blocks")
		})
	}
}
