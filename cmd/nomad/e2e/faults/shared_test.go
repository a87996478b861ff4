package faults

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// many lets several allocations write on a volume at once.
func (b *bed) many(id string) {
	b.t.Helper()
	b.volume(id, map[string]any{"RequestedCapabilities": capabilities("multi-node-multi-writer")})
}

// sharing is a job that writes on a volume beside others.
func sharing(id, volume string) *api.Job {
	j := kit.WithVolume(kit.ShellJob(id, "while :; do echo $NOMAD_ALLOC_ID >> data/of-"+id+"; sleep 0.05; done"), volume)
	j.TaskGroups[0].Volumes["data"].AccessMode = "multi-node-multi-writer"
	return j
}

// grows waits until the sharing job writes.
func (b *bed) grows(job, volume string) {
	b.t.Helper()
	size := func() int { body, _ := os.ReadFile(b.data(volume, "of-"+job)); return len(body) }
	before := size()
	b.Until(10*time.Second, job+" to write", func() error {
		if size() <= before {
			return fmt.Errorf("the file stands still at %d bytes", before)
		}
		return nil
	})
}

func TestFault17AgentRestartedThenOneOfTwoUsersStops(t *testing.T) {
	t.Parallel()
	// A grace that a busy machine does not exceed.
	b := layout{nodes: 2, attach: true, times: "heartbeat_grace = \"30s\""}.bed(t)
	b.many("v1")
	h := b.nodes[0]
	b.Register(on(sharing("a", "v1"), h))
	b.Register(on(sharing("b", "v1"), h))
	b.Running("a", 1)
	stays := b.Running("b", 1)
	h.Kill9()
	h.Restart()
	b.reaches(stays.ID)
	b.Stop("a", false)
	b.Until(15*time.Second, "the first claim to go", func() error {
		if n := b.Claimed("v1"); n != 1 {
			return fmt.Errorf("%d claims", n)
		}
		return nil
	})
	b.grows("b", "v1")
	if n := len(b.calls("v1", "NodeUnstageVolume", "ControllerUnpublishVolume")); n != 0 {
		t.Errorf("%d calls took the volume from the other user", n)
	}
	b.Stop("b", false)
	b.clean()
	stages := len(b.calls("v1", "NodeStageVolume"))
	unstages := len(b.calls("v1", "NodeUnstageVolume"))
	if stages != 1 || unstages != 1 {
		t.Errorf("%d stages and %d unstages", stages, unstages)
	}
	b.row(17, "agent restarted, one of two users stops", fmt.Sprintf("the other writes on; %d stage, %d unstage", stages, unstages), "the reference count survives")
}

func TestFault18VolumeEditedWhileClaimed(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(5, 30)
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	answers := map[int]int{}
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, code := b.register("v1", b.volumes["v1"], nil)
				answers[code]++
				<-time.After(2 * time.Millisecond)
			}
		}
	})
	for i := range rounds {
		name := fmt.Sprint("w", i)
		b.Register(on(writer(name, "v1"), b.nodes[i%2]))
		alloc := b.Running(name, 1)
		b.beats("v1", alloc.ID)
		if n := b.Claimed("v1"); n != 1 {
			t.Errorf("round %d: %d claims while the job runs", i, n)
		}
		b.Stop(name, true)
	}
	close(stop)
	wg.Wait()
	b.clean()
	if answers[http.StatusInternalServerError] > 0 {
		t.Errorf("answers by code: %v", answers)
	}
	b.row(18, fmt.Sprintf("volume registered again all the time, %d jobs", rounds), fmt.Sprintf("answers by code %v, one writer", answers), "claims are never written by user edits")
}

func TestFault19TwoWritersStartTogether(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.many("v1")
	// Slow calls would overlap if they could.
	b.faults(script.Fault{RPC: "NodeStageVolume", Delay: 400 * time.Millisecond}, script.Fault{RPC: "NodePublishVolume", Delay: 400 * time.Millisecond})
	began := time.Now()
	for _, id := range []string{"a", "b", "c"} {
		b.Register(on(sharing(id, "v1"), b.nodes[0]))
	}
	for _, id := range []string{"a", "b", "c"} {
		b.Running(id, 1)
	}
	ran := time.Since(began)
	for _, id := range []string{"a", "b", "c"} {
		b.grows(id, "v1")
		if n := len(b.Allocs(id, "failed")); n > 0 {
			t.Errorf("%s: %d allocations failed", id, n)
		}
		b.Stop(id, false)
	}
	b.clean()
	overlaps := len(script.Overlaps(b.calls("v1")))
	b.row(19, "three allocations of a shared volume start together, slow driver", fmt.Sprintf("all run after %s, %d calls overlap", short(ran), overlaps), "one call at a time, all run")
}

func TestFault15DeletedWhileUsed(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	for _, way := range []string{"delete", "deregister"} {
		out, code := b.Run("volume", way, "v1")
		if code == 0 || !strings.Contains(out, alloc.ID[:8]) {
			t.Errorf("volume %s: exit %d, does not name the user: %s", way, code, out)
		}
	}
	if n := len(b.calls("v1", "DeleteVolume")); n != 0 {
		t.Errorf("%d calls of DeleteVolume", n)
	}
	b.beats("v1", alloc.ID)
	b.Stop("w", false)
	b.clean()
	b.row(15, "delete and deregister while used", "refused with the user's name, 0 driver calls", "refused before the driver is called")
}

func TestFault22TwoSpecsForOneVolume(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	how := "second spec refused"
	if body, code := b.register("v2", b.volumes["v1"], nil); code == http.StatusOK {
		b.volumes["v2"] = b.volumes["v1"]
		b.Register(on(writer("a", "v1"), b.nodes[0]))
		first := b.Running("a", 1)
		b.beats("v1", first.ID)
		b.Register(on(writer("b", "v2"), b.nodes[1]))
		b.blocked("b")
		<-time.After(time.Second) // what must not happen has a while to happen
		if n := len(b.Allocs("b", "running")); n > 0 {
			t.Errorf("two writers run on one volume: %s", b.tell("b"))
		}
		b.Stop("a", false)
		b.Until(15*time.Second, "b to run", func() error {
			if len(b.Allocs("b", "running")) == 0 {
				return fmt.Errorf("%s\nv1: %s\nv2: %s\n%s", b.tell("b"), b.waits("v1"), b.waits("v2"), b.get("/v1/job/b/evaluations"))
			}
			return nil
		})
		b.Stop("b", false)
		how = "second spec accepted, one writer at a time"
	} else if code/100 != 4 {
		t.Errorf("second spec: %d %s", code, body)
	}
	for _, id := range []string{"a/b", "..", "a\x00b", "", " ", strings.Repeat("x", 5000)} {
		bad := spec(id, map[string]any{"Name": "x", "ExternalID": "x"})
		if body, code := b.put("/v1/volume/csi/x", map[string]any{"Volumes": []any{bad}}); code/100 != 4 {
			t.Errorf("id %.20q: %d %s", id, code, body)
		}
	}
	modes := writer("reads", "v1")
	modes.TaskGroups[0].Volumes["data"].AccessMode = "multi-node-multi-writer"
	b.Register(modes)
	b.blocked("reads")
	<-time.After(500 * time.Millisecond)
	if n := len(b.Allocs("reads", "running")); n > 0 {
		t.Error("a job writes in a mode that the volume was not made for")
	}
	b.Stop("reads", true)
	b.clean()
	b.row(22, "two specs for one volume; hostile ids; foreign access mode", how+"; hostile ids 4xx; foreign mode waits", "shared with the rule kept, or refused")
}
