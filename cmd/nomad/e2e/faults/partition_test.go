package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// stamping writes who writes, and when by the clock of its host. It ignores every plea to stop.
const stamping = `trap '' TERM INT; while :; do echo "$NOMAD_ALLOC_ID $(date +%s%N)" >>data/stamps; sleep 0.05; done`

// pair is two nodes with a volume that only they may have.
type pair struct {
	*bed
	volume        string
	holder, other *kit.Host
	// allocation writes on the volume now.
	allocation string
}

// turn is how a volume went from one host to the other; times count from the cut.
type turn struct {
	// last is the last write of the old task that reached the data, first the first one of the new.
	last, first time.Duration
	// off is when the old host had lost the volume: its detach was answered, or it had no mount any more.
	off time.Duration
	// mounts is when the driver was asked to mount on the new host.
	mounts time.Duration
	// vain counts what the old task wrote after its storage was cut off.
	vain int
}

func newPair(b *bed, i int) *pair {
	b.t.Helper()
	p := &pair{bed: b, volume: fmt.Sprint("v", i), holder: b.nodes[2*i], other: b.nodes[2*i+1]}
	b.volume(p.volume, map[string]any{"FenceAfter": fenceAfter, "Lease": lease})
	j := kit.WithVolume(kit.ShellJob(p.volume, stamping), p.volume)
	j.TaskGroups[0].Tasks[0].KillTimeout = ptr(time.Second)
	j.Constraints = []*api.Constraint{{
		LTarget: "${node.unique.name}", Operand: "regexp", RTarget: fmt.Sprintf("^(%s|%s)$", p.holder.Name, p.other.Name),
	}}
	b.Register(j)
	a := b.Running(p.volume, 1)
	p.allocation = a.ID
	if b.host(a) != p.holder {
		p.holder, p.other = p.other, p.holder
	}
	p.stamped(p.allocation)
	return p
}

// stamps are the times at which an allocation wrote into a file.
func stamps(file, alloc string) (all []time.Time) {
	body, _ := os.ReadFile(file)
	for line := range strings.Lines(string(body)) {
		id, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ns, err := strconv.ParseInt(at, 10, 64); err == nil && id == alloc {
			all = append(all, time.Unix(0, ns))
		}
	}
	return all
}

// stamped waits until the allocation has written.
func (p *pair) stamped(alloc string) {
	p.t.Helper()
	p.Until(15*time.Second, "a write of "+alloc, func() error {
		if len(stamps(p.data(p.volume, "stamps"), alloc)) == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
}

// unmounted tells on the channel when the host has no mount of a volume.
func unmounted(h *kit.Host, until <-chan struct{}) <-chan time.Time {
	when := make(chan time.Time, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for len(h.VolumeMounts()) > 0 {
			select {
			case <-until:
				return
			case <-tick.C:
			}
		}
		when <- time.Now()
	}()
	return when
}

// cut takes the holder off the network and waits until the other host writes.
func (p *pair) cut() turn {
	p.t.Helper()
	old, from, to := p.allocation, p.holder, p.other
	over := make(chan struct{})
	defer close(over)
	gone := unmounted(from, over)
	from.Cut()
	cut := time.Now()
	next := p.moved(p.volume, old)
	p.stamped(next.ID)
	file := p.data(p.volume, "stamps")
	was, is := stamps(file, old), stamps(file, next.ID)
	out := turn{last: was[len(was)-1].Sub(cut), first: is[0].Sub(cut)}
	for _, c := range p.calls(p.volume, "NodeStageVolume", "ControllerUnpublishVolume") {
		switch {
		case c.At.Before(cut):
		case c.RPC == "NodeStageVolume" && c.Node == to.Name && out.mounts == 0:
			out.mounts = c.At.Sub(cut)
		case c.RPC == "ControllerUnpublishVolume" && c.To == from.Name && c.Code == 0:
			out.off = c.Ended.Sub(cut)
		}
	}
	if !p.attach {
		select {
		case at := <-gone:
			out.off = at.Sub(cut)
		default:
			p.t.Errorf("%s: the cut host still has %q", p.volume, from.VolumeMounts())
		}
	}
	if p.attach {
		p.Until(10*time.Second, "the old task to write in vain", func() error {
			if out.vain = p.inVain(old, from, cut.Add(out.off)); out.vain == 0 {
				return fmt.Errorf("nothing written since its storage is cut off")
			}
			return nil
		})
	}
	p.allocation, p.holder, p.other = next.ID, to, from
	return out
}

// inVain counts what the old task wrote after its storage was cut off; none of it reaches the data.
func (p *pair) inVain(alloc string, from *kit.Host, since time.Time) (n int) {
	lost, _ := filepath.Glob(filepath.Join(p.storage, "data", p.volumes[p.volume]+".cut-from-"+from.Name+"-*", "stamps"))
	for _, f := range lost {
		for _, at := range stamps(f, alloc) {
			if at.After(since) {
				n++
			}
		}
	}
	return n
}

// healed brings the cut host back and waits until nothing of the old task is left there.
func (p *pair) healed() {
	p.t.Helper()
	h := p.other
	h.Heal()
	p.status(h, "ready")
	p.Until(30*time.Second, h.Name+" to be clean", func() error {
		if pids, m := h.Shells(), h.VolumeMounts(); len(pids)+len(m) > 0 {
			return fmt.Errorf("processes %v, mounts %q", pids, m)
		}
		return nil
	})
}

// checked fails unless the old host was off before the new one had the volume.
func (o turn) checked(t *testing.T) {
	t.Helper()
	if o.mounts == 0 || o.off == 0 || o.off > o.mounts {
		t.Errorf("the old host was off after %v, the new one mounted after %v", o.off, o.mounts)
	}
	if o.last >= o.first || o.last > o.mounts {
		t.Errorf("the old task wrote until %v, the new one mounted after %v and wrote after %v", o.last, o.mounts, o.first)
	}
}

func TestFault05PartitionsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(3, 12)
	for _, attach := range []bool{true, false} {
		t.Run(map[bool]string{true: "attach", false: "lease"}[attach], func(t *testing.T) {
			const side = 3 // so many pairs at once
			b := newBed(t, 2*side, attach)
			var pairs []*pair
			for i := range side {
				pairs = append(pairs, newPair(b, i))
			}
			for _, n := range b.nodes {
				b.allowed = append(b.allowed, "detach-while-staged "+n.Name)
			}
			var all []turn
			for len(all) < rounds {
				for _, o := range together(pairs) {
					all = append(all, o)
					o.checked(t)
					t.Logf("round %d: cut 0; the old task's last write %v; the old host is off %v; the new host mounts %v; the new task's first write %v; %d writes in vain",
						len(all), o.last.Round(time.Millisecond), o.off.Round(time.Millisecond), o.mounts.Round(time.Millisecond), o.first.Round(time.Millisecond), o.vain)
				}
				for _, p := range pairs {
					p.healed()
				}
				b.PluginOn("hp", 2*side)
			}
			for _, p := range pairs {
				b.Stop(p.volume, false)
			}
			b.clean()
			var gaps, firsts []time.Duration
			for _, o := range all {
				gaps, firsts = append(gaps, o.mounts-o.off), append(firsts, o.first)
			}
			b.row(5, fmt.Sprintf("node cut, %d times, %s", len(all), filepath.Base(t.Name())),
				fmt.Sprintf("%d of %d: the old host was off %s to %s before the new one mounted; the new task writes after %s (median), %s (worst)",
					len(all), len(all), short(slices.Min(gaps)), short(slices.Max(gaps)), short(median(firsts)), short(slices.Max(firsts))), "every time off before the replacement mounts")
		})
	}
}

// together cuts a host of each pair at once.
func together(pairs []*pair) []turn {
	out := make([]turn, len(pairs))
	var wg sync.WaitGroup
	for i, p := range pairs {
		wg.Go(func() { out[i] = p.cut() })
	}
	wg.Wait()
	return out
}
