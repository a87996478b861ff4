package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// hanging is a bucket of which the writes hang whose keys contain one of some words.
type hanging struct {
	*bucket
	mu    sync.Mutex
	words []string
	end   chan struct{}
	dead  bool // whoever waits was killed
}

func (h *hanging) hang(words ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.words, h.end = words, make(chan struct{})
}

func (h *hanging) answer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		close(h.end)
	}
	h.words, h.end = nil, nil
}

// killed has the disk answer when the agent that waits for it is no more.
func (h *hanging) killed() {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	h.answer()
	synctest.Wait()
	h.mu.Lock()
	h.dead = false
	h.mu.Unlock()
}

func (h *hanging) wait(key string) error {
	h.mu.Lock()
	end := h.end
	hangs := slices.ContainsFunc(h.words, func(word string) bool { return strings.Contains(key, word) })
	h.mu.Unlock()
	if hangs {
		<-end
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if hangs && h.dead {
		return errKilled
	}
	return nil
}

func (h *hanging) Put(key string, value []byte) error {
	if err := h.wait(key); err != nil {
		return err
	}
	return h.bucket.Put(key, value)
}

func (h *hanging) Delete(key string) error {
	if err := h.wait(key); err != nil {
		return err
	}
	return h.bucket.Delete(key)
}

// onHangingDisk runs a test with a journal whose writes may hang.
func onHangingDisk(t *testing.T, test func(*testing.T, *virtual, *hanging)) {
	t.Helper()
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("v2")
		v.stop()
		h := &hanging{bucket: v.journal}
		v.conf.Journal = h
		v.start()
		defer h.answer()
		test(t, v, h)
	})
}

func using(alloc, volume string) *api.Allocation {
	return workload(alloc, &api.VolumeRequest{Source: volume})
}

// A volume whose record the disk does not answer waits for it, and says so; its allocation can be stopped, and other
// volumes go on.
func TestMountWhoseRecordHangsCanBeGivenUp(t *testing.T) {
	for word, says := range map[string]string{"row/w/": "write journal", "stage/": "stage: write journal"} {
		t.Run(word, func(t *testing.T) {
			onHangingDisk(t, func(t *testing.T, v *virtual, h *hanging) {
				if word == "stage/" { // its staging is on record
					v.up(using("other", "v2"))
				}
				h.hang(word)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { _, err := v.svc.Up(ctx, using("w", "v")); done <- err }()
				v.users.until(t, 1, "Waiting w v Volume \"v\": mount: the disk of the node")
				v.users.until(t, 1, "Waiting w v Volume \"v\": "+says)
				if word != "stage/" {
					v.up(using("other", "v2"))
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the mount that was given up: %v", err)
				}
				v.down("w")
				v.untilReleased("w")
				h.answer()
				v.down("other")
				v.until("the records are gone", func() bool { rows, _ := v.journal.All(); return len(rows) == 0 })
				v.clean()
			})
		})
	}
}

// What the disk takes after all, when nobody waited for it any more, is not what it keeps.
func TestRecordThatComesLateIsNotKept(t *testing.T) {
	onHangingDisk(t, func(t *testing.T, v *virtual, h *hanging) {
		h.hang("row/w/", "stage/")
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); done <- err }()
		v.users.until(t, 1, "Waiting w v Volume \"v\": write journal")
		h.answer()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		mounts, _ := v.host.Table()
		v.stop()
		v.start()
		v.knows(workload("w"))
		v.up(workload("w"))
		if now, _ := v.host.Table(); len(now) != len(mounts) {
			t.Errorf("mounts were %v and are %v", mounts, now)
		}
		if n := v.count("NodePublishVolume"); n != 1 {
			t.Errorf("it was published %d times", n)
		}
		v.down("w")
		v.clean()
	})
}

// An unmount needs no record.
func TestVolumesAreTakenDownWhileTheDiskHangs(t *testing.T) {
	onHangingDisk(t, func(t *testing.T, v *virtual, h *hanging) {
		v.up(using("w", "v"))
		v.up(using("other", "v2"))
		h.hang("/")
		begin := time.Now()
		v.down("w")
		v.untilReleased("w")
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		v.down("other")
		v.untilReleased("other")
		h.answer()
		v.until("the records are gone", func() bool {
			rows, _ := v.journal.All()
			return len(rows) == 0
		})
		v.clean()
	})
}

// An agent is killed while the disk hangs: the next one has the older records, and leaves nothing.
func TestAgentIsKilledWhileTheDiskHangs(t *testing.T) {
	for _, word := range []string{"row/", "stage/", "/"} {
		for what, mounted := range map[string]bool{"during a mount": false, "during an unmount": true} {
			t.Run(word+" "+what, func(t *testing.T) {
				onHangingDisk(t, func(t *testing.T, v *virtual, h *hanging) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					if mounted {
						v.up(using("w", "v"))
						h.hang(word)
						_ = v.svc.Down(ctx, "w")
					} else {
						h.hang(word)
						_, _ = v.svc.Up(ctx, using("w", "v"))
					}
					v.stop()
					h.killed()
					v.start()
					v.knows(using("w", "v"))
					if !mounted {
						v.up(using("w", "v"))
					}
					v.down("w")
					v.untilReleased("w")
					v.until("the records are gone", func() bool {
						rows, _ := v.journal.All()
						return len(rows) == 0
					})
					v.clean()
				})
			})
		}
	}
}
