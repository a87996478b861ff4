package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const (
	fenceAfter = 3 * time.Second
	lease      = 6 * time.Second
	// margin is what the server adds to a lease before it believes in its end.
	margin = 10 * time.Second
)

// lossy is a bed with a writer on the first of two nodes, and a volume that moves soon after a loss.
func lossy(t *testing.T, attach bool) (b *bed, h *kit.Host, alloc string) {
	t.Helper()
	b = newBed(t, 2, attach)
	b.volume("v1", map[string]any{"FenceAfter": fenceAfter, "Lease": lease})
	b.Register(writer("w", "v1"))
	a := b.Running("w", 1)
	b.beats("v1", a.ID)
	h = b.host(a)
	b.allowed = []string{"detach-while-staged " + h.Name}
	return b, h, a.ID
}

// bar is when the replacement must run, from the time at which the node is down.
func bar(attach bool) (time.Duration, string) {
	if attach {
		return fenceAfter + 10*time.Second, fmt.Sprintf("runs <= node down + fence_after %v + 10 s", fenceAfter)
	}
	return lease + margin + 5*time.Second, fmt.Sprintf("runs <= lease %v + margin %v + 5 s", lease, margin)
}

// proven waits until the volume's status says how the node's claim ended.
func (b *bed) proven(volume string) string {
	b.t.Helper()
	r, err := b.API.Raw().Response("/v1/volume/csi/"+volume, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	var body strings.Builder
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		body.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	for _, proof := range []string{"fenced", "assumed"} {
		if strings.Contains(body.String(), `"`+proof+`"`) {
			return proof
		}
	}
	b.t.Errorf("no proof on the volume: %s", body.String())
	return "none"
}

// healed ends the cut of a host and answers after what time it is ready, which it is not before it is clean.
func (b *bed) healed(h *kit.Host) time.Duration {
	b.t.Helper()
	h.Heal()
	took := b.status(h, "ready")
	if p, m := h.Shells(), h.VolumeMounts(); len(p)+len(m) > 0 {
		b.t.Errorf("the old node is ready and has processes %v, mounts %q", p, m)
	}
	b.PluginOn("hp", 2)
	return took
}

func TestFault05NodeCutAndHealed(t *testing.T) {
	t.Parallel()
	for _, attach := range []bool{true, false} {
		t.Run(map[bool]string{true: "attach", false: "lease"}[attach], func(t *testing.T) {
			b, h, old := lossy(t, attach)
			h.Cut()
			began := time.Now()
			down := b.status(h, "down")
			lost := time.Now()
			now := b.moved("w", old)
			b.beats("v1", now.ID)
			moved, limit, words := time.Since(lost), time.Duration(0), ""
			if !attach {
				moved = time.Since(began)
				if n := h.Shells(); len(n) > 0 {
					t.Errorf("the old task runs on: %v", n)
				}
				if m := h.VolumeMounts(); len(m) > 0 {
					t.Errorf("the old node has it mounted: %q", m)
				}
			}
			if limit, words = bar(attach); moved > limit {
				t.Errorf("moved after %v, the bar is %v", moved, limit)
			}
			proof := b.proven("v1")
			tidy := b.healed(h)
			if n := b.Running("w", 1); n.ID != now.ID {
				t.Errorf("the replacement %s was replaced by %s", now.ID, n.ID)
			}
			b.beats("v1", now.ID)
			b.Stop("w", false)
			b.clean()
			b.row(5, "node cut and healed, "+filepath.Base(t.Name()), fmt.Sprintf("down %s; replacement writes %s after; proof %s; old node clean %s after healing",
				short(down), short(moved), proof, short(tidy)), words+"; never two writers")
		})
	}
}

// TestFault05ForgottenNodeComesBack lets the servers collect the row of a cut node as garbage: what it has mounted
// is known to nobody but itself then.
func TestFault05ForgottenNodeComesBack(t *testing.T) {
	t.Parallel()
	b, h, old := lossy(t, true)
	h.Cut()
	b.status(h, "down")
	now := b.moved("w", old)
	b.beats("v1", now.ID)
	b.Until(20*time.Second, "the node to be collected", func() error {
		b.Run("system", "gc")
		if s := h.NodeStatus(b.Host); s != "unknown" {
			return fmt.Errorf("it is %s", s)
		}
		return nil
	})
	if len(h.VolumeMounts()) == 0 {
		t.Error("the cut node has nothing mounted: the test shows nothing")
	}
	tidy := b.healed(h)
	b.beats("v1", now.ID)
	b.Stop("w", false)
	b.clean()
	b.row(5, "node cut, collected, healed; attach", "old node clean and ready "+short(tidy)+" after healing", "clean before it is ready")
}

func TestFault05MachineFrozenAndThawed(t *testing.T) {
	t.Parallel()
	b, h, old := lossy(t, true)
	h.Freeze()
	b.status(h, "down")
	lost := time.Now()
	now := b.moved("w", old)
	b.beats("v1", now.ID)
	moved := time.Since(lost)
	h.Thaw()
	thawed := time.Now()
	b.status(h, "ready")
	b.Until(20*time.Second, "the old node to be clean", func() error {
		if p, m := h.Shells(), h.VolumeMounts(); len(p)+len(m) > 0 {
			return fmt.Errorf("processes %v, mounts %q", p, m)
		}
		return nil
	})
	tidy := time.Since(thawed)
	b.beats("v1", now.ID)
	b.Stop("w", false)
	b.clean()
	limit, words := bar(true)
	b.within("the move", moved, limit)
	b.row(5, "machine frozen and thawed, attach", fmt.Sprintf("replacement writes %s after node down; old node clean %s after the thaw", short(moved), short(tidy)), words+"; never two writers")
}

func TestFault06NodeDestroyed(t *testing.T) {
	t.Parallel()
	for _, attach := range []bool{true, false} {
		t.Run(map[bool]string{true: "attach", false: "lease"}[attach], func(t *testing.T) {
			b, h, old := lossy(t, attach)
			h.Destroy()
			began := time.Now()
			down := b.status(h, "down")
			lost := time.Now()
			now := b.moved("w", old)
			b.beats("v1", now.ID)
			moved := time.Since(lost)
			if !attach {
				moved = time.Since(began)
			}
			limit, words := bar(attach)
			b.within("the move", moved, limit)
			proof := b.proven("v1")
			b.Stop("w", false)
			b.clean()
			b.row(6, "node destroyed, "+filepath.Base(t.Name()), fmt.Sprintf("down %s; replacement writes %s after; proof %s", short(down), short(moved), proof), words+"; proof recorded")
		})
	}
}

func TestFault16VolumeOfALostNodeWaitsForTheTask(t *testing.T) {
	t.Parallel()
	// The task of the cut node ends slowly; without attach only its end frees the volume.
	b := newBed(t, 2, false)
	b.volume("v1", map[string]any{"Lease": lease})
	j := writer("w", "v1")
	j.TaskGroups[0].Tasks[0].KillTimeout = ptr(20 * time.Second)
	j.TaskGroups[0].Tasks[0].Config["args"] = []string{"-c", slowly}
	b.Register(j)
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	h := b.host(alloc)
	h.Cut()
	began := time.Now()
	now := b.moved("w", alloc.ID)
	moved := time.Since(began)
	if n := h.Shells(); len(n) > 0 {
		t.Errorf("the old task runs on: %v", n)
	}
	b.beats("v1", now.ID)
	body, err := os.ReadFile(b.data("v1", "journal"))
	if err != nil {
		t.Fatal(err)
	}
	if err := oneWriter(string(body)); err != nil {
		t.Error(err)
	}
	h.Heal()
	b.status(h, "ready")
	b.Stop("w", false)
	b.clean()
	b.row(16, "shutdown of 3 s; node loss with a lease", "volume moved after "+short(moved), "not before the task ended")
}
