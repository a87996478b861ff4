package volumes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// eachAnswer plays every code at each call of the node: quick and slow, before its work and after it.
func eachAnswer(t *testing.T, c fake.Config, play func(*testing.T, *virtual)) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for i, f := range fake.EveryFault(rpc, 40*time.Second) {
			if i%eachOf != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s %s late=%v %s", rpc, f.Code, f.Late, f.Delay), func(t *testing.T) {
				inVirtualTime(t, c, func(t *testing.T, v *virtual) {
					v.driver.Script(f)
					play(t, v)
					v.untilReleased("w")
					v.clean()
				})
			})
		}
	}
}

// Whatever the driver answers, once, to a call of the node: what was mounted is gone in the end, at the driver, in the
// mount table and in the journal, and the servers hear of it after that.
func TestEveryAnswerLeavesACleanNode(t *testing.T) {
	for name, c := range map[string]fake.Config{"mounts": {}, "sessions": {NoMountAtStaging: true}, "no staging": {NoStage: true}} {
		t.Run(name, func(t *testing.T) {
			eachAnswer(t, c, func(t *testing.T, v *virtual) {
				if m, err := v.svc.Up(t.Context(), workload("w")); err == nil && v.on(m["a"].Source) == nil {
					t.Error("it is said to be mounted, and is not")
				}
				_ = v.svc.Down(t.Context(), "w")
			})
		})
	}
}

// The same with an agent that dies in the middle of it, and another that knows only what the journal says.
func TestAgentThatDiesAtAnyAnswerLeavesACleanNode(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Second, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			eachAnswer(t, fake.Config{}, func(t *testing.T, v *virtual) {
				ctx, die := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if _, err := v.svc.Up(ctx, workload("w")); err == nil || ctx.Err() == nil {
						_ = v.svc.Down(ctx, "w")
					}
				}()
				time.Sleep(after)
				die()
				<-ended
				v.driver.Storage().Excuse("fake-node", true) // what it was doing may go on beside what comes next
				v.stop()
				v.start()
				v.svc.Restored(map[string]volumes.Known{"plug-" + v.kind: {}})
				if rows, _ := v.journal.All(); len(rows) == 0 {
					v.servers.mu.Lock()
					v.servers.released = append(v.servers.released, "w") // it had ended before, or had not begun
					v.servers.mu.Unlock()
				}
			})
		})
	}
}
