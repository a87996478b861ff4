package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestDetachesOfADeadNodeDoNotDelayThoseOfAnother(t *testing.T) {
	t.Parallel()
	const many = 40
	b := newBed(t, 2, true)
	dead, alive := b.nodes[0], b.nodes[1]
	id := func(i int) string { return fmt.Sprint("v", i) }
	idle := func(name, volume string) {
		b.Register(on(kit.WithVolume(kit.ShellJob(name, "exec sleep 1000"), volume), dead))
	}
	for i := range many {
		b.volume(id(i), map[string]any{"FenceAfter": time.Second})
		idle(id(i), id(i))
	}
	b.volume("other", nil)
	b.Until(60*time.Second, "all to run", func() error { return b.count("running", many) })
	// round is one use of a volume on the living node, from the submission until it is free again.
	round := func(name string) time.Duration {
		began := time.Now()
		b.Register(on(writer(name, "other"), alive))
		b.runs(name, "other", 30*time.Second)
		b.Stop(name, true)
		b.Free("other")
		b.Until(30*time.Second, "the detach", func() error {
			if at := b.attached("other"); len(at) > 0 {
				return fmt.Errorf("attached to %q", at)
			}
			return nil
		})
		return time.Since(began)
	}
	var alone, beside []time.Duration
	for i := range 5 {
		alone = append(alone, round(fmt.Sprint("before", i)))
	}
	b.allowed = []string{"detach-while-staged " + dead.Name}
	b.faults(script.Fault{RPC: "ControllerUnpublishVolume", To: dead.Name, Hang: true})
	dead.Destroy()
	b.status(dead, "down")
	b.Until(20*time.Second, "detaches to hang", func() error {
		if n := len(b.calls("", "ControllerUnpublishVolume")) - len(alone); n < 8 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	for i := range 5 {
		beside = append(beside, round(fmt.Sprint("after", i)))
	}
	b.faults()
	for i := range many {
		b.Stop(id(i), true)
	}
	b.Until(60*time.Second, "the dead node to be detached", func() error {
		for i := range many {
			if at := b.attached(id(i)); len(at) > 0 {
				return fmt.Errorf("%s is attached to %q", id(i), at)
			}
		}
		return nil
	})
	b.clean()
	b.within("a use beside hung detaches", median(beside), median(alone)+time.Second)
	b.figure(fmt.Sprintf("%d hung detaches of a dead node, and a healthy one", many),
		fmt.Sprintf("start, stop and detach on another node %s, before %s", short(median(beside)), short(median(alone))), "<= 1 s more")
}
