package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// hung is a bed with volumes, whose driver on the first node hangs; the second one can do all that is asked.
func hung(t *testing.T, many int) (b *bed, pids []int) {
	t.Helper()
	b = newBed(t, 2, true)
	for i := range many {
		b.volume(fmt.Sprint("v", i), nil)
	}
	pids = drivers(b.nodes[0])
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	return b, pids
}

// used starts a job for each volume on the second node and stops it again.
func (b *bed) used(many int) (started []time.Duration, freed time.Duration) {
	b.t.Helper()
	began := time.Now()
	for i := range many {
		id := fmt.Sprint("v", i)
		b.Register(on(kit.WithVolume(kit.ShellJob(id, "echo start $NOMAD_ALLOC_ID >> data/journal; exec sleep 1000"), id), b.nodes[1]))
	}
	for i := range many {
		id := fmt.Sprint("v", i)
		b.runs(id, id, 60*time.Second)
		started = append(started, time.Since(began))
	}
	began = time.Now()
	for i := range many {
		b.Stop(fmt.Sprint("v", i), false)
	}
	for i := range many {
		b.Free(fmt.Sprint("v", i))
	}
	return started, time.Since(began)
}

func TestControllersShareTheWork(t *testing.T) {
	const many = 12
	b, pids := hung(t, many)
	by := map[string]int{}
	for _, c := range b.calls("", "CreateVolume") {
		by[c.Node]++
	}
	for _, h := range b.nodes {
		if by[h.Name] == 0 {
			t.Errorf("%d creates went to %v", many, by)
		}
	}
	started, freed := b.used(many)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	b.PluginOn("hp", 2)
	b.clean()
	worst := started[many-1]
	b.within("starting with a hung controller", worst, 6*time.Second)
	b.within("stopping with a hung controller", freed, 6*time.Second)
	b.figure("two controllers, one hung: attach and detach", fmt.Sprintf("creates by node %v; %d jobs run after %s; free after %s", by, many, short(worst), short(freed)),
		"spread; next call elsewhere <= 5 s")
}
