package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

func TestFault01StoppedJobGivesItsVolumeToTheWaiting(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	rounds := soaktest.Rounds(5, 20)
	var free, next []time.Duration
	name := func(i int) string { return fmt.Sprint("w", i) }
	// Rounds change between the same and the other node.
	job := func(i int) *api.Job { return on(writer(name(i), "v1"), b.nodes[i/2%2]) }
	b.Register(job(0))
	holder := b.Running(name(0), 1)
	b.beats("v1", holder.ID)
	for i := 1; i <= rounds; i++ {
		b.Register(job(i))
		b.blocked(name(i))
		b.Stop(name(i-1), false)
		began := time.Now()
		free = append(free, b.Until(20*time.Second, "the claim to go", func() error {
			v, _, err := b.API.CSIVolumes().Info("v1", nil)
			if err != nil {
				return err
			}
			if _, held := v.WriteAllocs[holder.ID]; held {
				return fmt.Errorf("%s holds it", holder.ID)
			}
			return nil
		}))
		holder = b.Running(name(i), 1)
		b.beats("v1", holder.ID)
		next = append(next, time.Since(began)-free[i-1])
	}
	b.Stop(name(rounds), false)
	b.clean()
	detaches := len(b.calls("v1", "ControllerUnpublishVolume"))
	if detaches != rounds+1 {
		t.Errorf("%d detach calls for %d releases", detaches, rounds+1)
	}
	b.within("the slowest release", slices.Max(free), 500*time.Millisecond)
	b.within("the slowest start", slices.Max(next), 2*time.Second)
	b.row(1, fmt.Sprintf("stop with a waiting job, %d rounds", rounds), fmt.Sprintf("free: median %s, worst %s; next runs: median %s, worst %s; %d detaches for %d releases",
		short(median(free)), short(slices.Max(free)), short(median(next)), short(slices.Max(next)), detaches, rounds+1),
		"free <= 0.5 s; runs <= 2 s after, 20 of 20; one detach each")
}

// blocked waits until the job has an allocation or an evaluation that waits for the volume.
func (b *bed) blocked(job string) {
	b.t.Helper()
	b.Until(10*time.Second, job+" to wait", func() error {
		evals, _, err := b.API.Jobs().Evaluations(job, nil)
		if err != nil {
			return err
		}
		allocs, _, err := b.API.Jobs().Allocations(job, true, nil)
		if err != nil {
			return err
		}
		if len(allocs) > 0 {
			return nil
		}
		for _, e := range evals {
			if e.Status == "blocked" {
				return nil
			}
		}
		return fmt.Errorf("%d evaluations, none blocked", len(evals))
	})
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func TestFault16VolumeStaysUntilALongShutdownEnded(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	slow := func(id, volume string) *api.Job {
		j := writer(id, volume)
		task := j.TaskGroups[0].Tasks[0]
		task.KillTimeout = ptr(20 * time.Second)
		task.Config["args"] = []string{"-c", slowly}
		return j
	}
	hand := func(way string, began time.Time, from *api.AllocationListStub, volume string, next string) time.Duration {
		t.Helper()
		b.Register(writer(next, volume))
		now := b.Running(next, 1)
		took := time.Since(began)
		b.beats(volume, now.ID)
		if took < 3*time.Second {
			t.Errorf("%s: the volume moved from %s after %v", way, from.ID, took)
		}
		return took
	}
	var took []time.Duration
	for i, way := range []string{"stop", "purge", "drain"} {
		volume, id := "v"+way, "w"+way
		b.volume(volume, nil)
		b.Register(slow(id, volume))
		alloc := b.Running(id, 1)
		b.beats(volume, alloc.ID)
		began := time.Now()
		switch way {
		case "drain":
			host := b.host(alloc)
			if out, code := b.Run("node", "drain", "-enable", "-yes", "-detach", host.NodeID(b.Host)); code != 0 {
				t.Fatalf("drain: %s", out)
			}
			again := b.moved(id, alloc.ID)
			b.beats(volume, again.ID)
			took = append(took, time.Since(began))
			if took[i] < 3*time.Second {
				t.Errorf("drain: the volume moved after %v", took[i])
			}
			b.Stop(id, false)
		default:
			b.Stop(id, way == "purge")
			took = append(took, hand(way, began, alloc, volume, "next"+way))
			b.Stop("next"+way, false)
		}
	}
	b.clean()
	b.row(16, "shutdown of 3 s; stop, purge, drain", "volume moved after "+short(took...), "not before the task ended")
}

// slowly needs three seconds to end and writes all the time.
const slowly = `cd data || exit 9
echo start $NOMAD_ALLOC_ID >> journal
trap 'i=0; while [ $i -lt 60 ]; do echo beat $NOMAD_ALLOC_ID >> journal; sleep 0.05; i=$((i+1)); done; echo stop $NOMAD_ALLOC_ID >> journal; exit 0' INT TERM
while :; do echo beat $NOMAD_ALLOC_ID >> journal; sleep 0.05; done`

// moved waits until another allocation of the job runs.
func (b *bed) moved(job, from string) *api.AllocationListStub {
	b.t.Helper()
	var found *api.AllocationListStub
	b.Until(50*time.Second, job+" to move", func() error {
		for _, a := range b.Allocs(job, "running") {
			if a.ID != from {
				found = a
				return nil
			}
		}
		return fmt.Errorf("%s", b.tell(job))
	})
	return found
}

// tell describes a job's allocations with their last events.
func (b *bed) tell(job string) string {
	all, _, err := b.API.Jobs().Allocations(job, true, nil)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, a := range all {
		out += fmt.Sprintf("%s on %s %s/%s", a.ID[:8], a.NodeName, a.DesiredStatus, a.ClientStatus)
		for _, s := range a.TaskStates {
			if n := len(s.Events); n > 0 {
				out += fmt.Sprintf(" (%s: %s)", s.Events[n-1].Type, s.Events[n-1].DisplayMessage)
			}
		}
		out += "; "
	}
	return out
}

func TestFault16UpdateAndPreemptionWaitForALongShutdown(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, true)
	slow := func(id string) *api.Job {
		j := writer(id, id)
		task := j.TaskGroups[0].Tasks[0]
		task.KillTimeout = ptr(20 * time.Second)
		task.Config["args"] = []string{"-c", slowly}
		return j
	}
	b.volume("u", nil)
	b.Register(slow("u"))
	first := b.Running("u", 1)
	b.beats("u", first.ID)
	j := slow("u")
	j.TaskGroups[0].Tasks[0].Env = map[string]string{"RELEASE": "2"}
	began := time.Now()
	b.Register(j)
	second := b.moved("u", first.ID)
	b.beats("u", second.ID)
	update := time.Since(began)
	if update < 3*time.Second {
		t.Errorf("the volume moved after %v", update)
	}
	b.Stop("u", false)
	b.Free("u")

	// The important job needs the room of the volume's holder, and another one waits for the volume.
	b.volume("p", nil)
	low := slow("p")
	low.Priority = ptr(10)
	node, _, err := b.API.Nodes().Info(b.nodes[0].NodeID(b.Host), nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := int(node.NodeResources.Memory.MemoryMB)
	low.TaskGroups[0].Tasks[0].Resources.MemoryMB = ptr(memory / 2)
	if _, err := b.API.Raw().Write("/v1/operator/scheduler/configuration", map[string]any{
		"PreemptionConfig": map[string]bool{"ServiceSchedulerEnabled": true, "SystemSchedulerEnabled": true},
	}, nil, nil); err != nil {
		t.Fatal(err)
	}
	b.Register(low)
	victim := b.Running("p", 1)
	b.beats("p", victim.ID)
	b.Register(writer("next", "p"))
	b.waits("p")
	high := kit.ShellJob("h", "while :; do sleep 1; done")
	high.Priority = ptr(90)
	high.TaskGroups[0].Tasks[0].Resources.MemoryMB = ptr(memory * 2 / 3)
	began = time.Now()
	b.Register(high)
	next := b.Running("next", 1)
	preempted := time.Since(began)
	b.beats("p", next.ID)
	if preempted < 3*time.Second {
		t.Errorf("the volume moved after %v", preempted)
	}
	if a, _, err := b.API.Allocations().Info(victim.ID, nil); err != nil || a.DesiredStatus != "evict" {
		t.Errorf("the holder is to %s, %v", a.DesiredStatus, err)
	}
	if err := oneWriter(b.journal("p")); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"p", "next", "h"} {
		b.Stop(id, false)
	}
	b.clean()
	b.row(16, "shutdown of 3 s; update, preemption", "volume moved after "+short(update, preempted), "not before the task ended")
}
