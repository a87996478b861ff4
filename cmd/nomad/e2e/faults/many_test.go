package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

func TestFault10ManyStartAndStopTogether(t *testing.T) {
	t.Parallel()
	many, rounds := 50, soaktest.Rounds(1, 5)
	b := newBed(t, 2, true)
	id := func(i int) string { return fmt.Sprint("v", i) }
	each := func(do func(i int)) {
		var wg sync.WaitGroup
		gate := make(chan struct{}, 8)
		for i := range many {
			wg.Go(func() { gate <- struct{}{}; do(i); <-gate })
		}
		wg.Wait()
	}
	for i := range many {
		b.volume(id(i), nil)
	}
	var started, freed []time.Duration
	for range rounds {
		began := time.Now()
		each(func(i int) {
			j := kit.WithVolume(kit.ShellJob(id(i), "echo start $NOMAD_ALLOC_ID >> data/journal; exec sleep 1000"), id(i))
			if _, _, err := b.API.Jobs().Register(j, nil); err != nil {
				t.Errorf("register: %v", err)
			}
		})
		b.Until(40*time.Second, "all to run", func() error { return b.count("running", many) })
		started = append(started, time.Since(began))
		began = time.Now()
		each(func(i int) {
			if _, _, err := b.API.Jobs().Deregister(id(i), false, nil); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		b.Until(40*time.Second, "all to be free", func() error {
			list, _, err := b.API.CSIVolumes().List(nil)
			if err != nil {
				return err
			}
			held := 0
			for _, v := range list {
				held += v.CurrentReaders + v.CurrentWriters
			}
			if held > 0 {
				return fmt.Errorf("%d are held", held)
			}
			return nil
		})
		freed = append(freed, time.Since(began))
	}
	b.clean()
	b.within("the start of all, in most rounds,", median(started), 5*time.Second)
	b.within("the release of all, in most rounds,", median(freed), 2*time.Second)
	b.row(10, fmt.Sprintf("%d jobs with a volume each, %d times", many, rounds), fmt.Sprintf("all run: %s; all free: %s", short(started...), short(freed...)),
		"in most rounds start <= 5 s, free <= 2 s; no violation")
}

// count checks how many allocations are in a state.
func (b *bed) count(status string, want int) error {
	list, _, err := b.API.Allocations().List(nil)
	if err != nil {
		return err
	}
	n := 0
	for _, a := range list {
		if a.ClientStatus == status && a.JobID != "hp" {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d are %s", n, want, status)
	}
	return nil
}

func TestFault11TwoJobsRaceForOneVolume(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(10, 50)
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	both := 0
	for round := range rounds {
		names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
		var wg sync.WaitGroup
		for i, name := range names {
			wg.Go(func() {
				if _, _, err := b.API.Jobs().Register(b.driven(on(writer(name, "v1"), b.nodes[i])), nil); err != nil {
					t.Errorf("register: %v", err)
				}
			})
		}
		wg.Wait()
		var winner, loser string
		b.Until(20*time.Second, "one to run", func() error {
			a, o := len(b.Allocs(names[0], "running")), len(b.Allocs(names[1], "running"))
			if a+o > 1 {
				both++
			}
			winner, loser = names[0], names[1]
			if a == 0 {
				winner, loser = loser, winner
			}
			if a+o == 0 {
				return fmt.Errorf("%s %s", b.tell(names[0]), b.tell(names[1]))
			}
			return nil
		})
		b.Stop(winner, true)
		b.Running(loser, 1)
		b.Stop(loser, true)
	}
	b.clean()
	if both > 0 {
		t.Errorf("both ran in %d of %d rounds", both, rounds)
	}
	b.row(11, fmt.Sprintf("two jobs race for one volume, %d rounds", rounds), fmt.Sprintf("two writers in %d; %d violations", both, len(b.violations())), "0")
}
