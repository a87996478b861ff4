package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// resourceExhausted is the gRPC code of a driver without room.
const resourceExhausted = 8

// rather lets a job run wherever it can, on the host if possible.
func rather(j *api.Job, h *kit.Host) *api.Job {
	j.Affinities = []*api.Affinity{{LTarget: "${node.unique.name}", RTarget: h.Name, Operand: "=", Weight: ptr(int8(100))}}
	j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{
		Attempts: ptr(0), Unlimited: ptr(true), Interval: ptr(time.Duration(0)), Delay: ptr(5 * time.Second), DelayFunction: ptr("constant"), MaxDelay: ptr(time.Duration(0)),
	}
	return j
}

func TestFault12NodeWithoutRoomGetsNoMore(t *testing.T) {
	t.Parallel()
	for _, rpc := range []string{"NodeStageVolume", "ControllerPublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			b := newBed(t, 2, true)
			full, other := b.nodes[0], b.nodes[1]
			for _, id := range []string{"first", "second"} {
				b.volume(id, nil)
			}
			fault := script.Fault{RPC: rpc, Node: full.Name, Code: resourceExhausted, Text: "no more slots"}
			if rpc == "ControllerPublishVolume" {
				fault.Node, fault.To = "", full.Name
			}
			b.faults(fault)
			b.Register(rather(writer("first", "first"), full))
			began := time.Now()
			b.Until(30*time.Second, "the job to run where there is room", func() error {
				for _, a := range b.Allocs("first", "running") {
					if a.NodeName == other.Name {
						return nil
					}
				}
				return fmt.Errorf("%s %s", b.tell("first"), b.waits("first"))
			})
			moved := time.Since(began)
			b.beats("first", b.Running("first", 1).ID)
			// What was learned holds for the next one: it does not even try.
			calls := len(b.calls("second", rpc))
			b.Register(rather(writer("second", "second"), full))
			second := b.Running("second", 1)
			if second.NodeName != other.Name || len(b.Allocs("second", "failed")) > 0 {
				t.Errorf("the second job: %s", b.tell("second"))
			}
			for _, c := range b.calls("second", rpc)[calls:] {
				if c.Node == full.Name && rpc == "NodeStageVolume" || c.To == full.Name {
					t.Errorf("the driver without room was asked again: %+v", c)
				}
			}
			b.beats("second", second.ID)
			b.Stop("first", false)
			b.Stop("second", false)
			b.faults()
			b.clean()
			b.row(12, "no room on a node at "+rpc, fmt.Sprintf("runs on the other %s after submission; the next job goes there at once", short(moved)), "tried elsewhere; not tried again")
		})
	}
}

func TestFault18VolumeExpandedWhileClaimed(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(3, 12)
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	for i := range rounds {
		name := fmt.Sprint("w", i)
		b.Register(on(writer(name, "v1"), b.nodes[i%2]))
		alloc := b.Running(name, 1)
		b.beats("v1", alloc.ID)
		size := int64(2+i) << 20
		if err := b.tryExpand("v1", size); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		b.Until(20*time.Second, "the volume to grow", func() error { return b.hasGrown("v1", size) })
		if n := b.Claimed("v1"); n != 1 {
			t.Errorf("round %d: %d claims after the expansion", i, n)
		}
		if now := b.Running(name, 1); now.ID != alloc.ID {
			t.Errorf("round %d: the allocation was replaced: %s", i, b.tell(name))
		}
		b.beats("v1", alloc.ID)
		b.Stop(name, true)
	}
	b.clean()
	b.row(18, fmt.Sprintf("volume expanded under its user, %d jobs", rounds), "claims stay, every user writes on", "claims are never written by user edits")
}
