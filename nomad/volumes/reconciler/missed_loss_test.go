package reconciler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// more changes than a feed keeps for who is busy.
const tooMany = 17_000

// unseen makes changes while the reconciler is busy with so many others that it is told to look at all anew.
func (r *rig) unseen(change func()) {
	r.T.Helper()
	busy, release := make(chan struct{}, 1), make(chan struct{})
	r.Proposing = func(c fsm.Command) {
		if _, is := c.(*commands.Reconcile); is {
			busy <- struct{}{}
			<-release
		}
	}
	flood := func(name string) {
		r.Edit(func(tx *state.Txn) {
			for i := range tooMany {
				tx.PutAlloc(&api.Allocation{ID: fmt.Sprint(name, i), Namespace: "default", JobID: "others", NodeID: "others"})
			}
		})
	}
	r.Edit(func(tx *state.Txn) { // it is settled before anything else is looked at
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "other", AllocID: "gone", NodeID: "n9", PluginID: "p", ExternalID: "ext-other", State: api.ClaimTaken})
	})
	flood("before")
	<-busy
	change()
	flood("after")
	close(release)
}

// comesAndGoes has the node, which is lost, come back and be lost once more, with the allocation of the volume "v".
func (r *rig) comesAndGoes() {
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	r.Later(70 * time.Minute)
	r.Change("n1", func(n *api.Node) {
		n.Status, n.StatusUpdatedAt, n.LastMissedHeartbeatIndex = api.NodeStatusDown, time.Now().Unix(), n.ModifyIndex+1
	})
	r.Ends("a1", api.AllocClientStatusLost)
}

// A node that came back has renewed its lease, also when the leader was too busy to see that.
func TestLeaseCountsFromTheLastLossThoughItsChangesWereMissed(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = lease })
	began := time.Now()
	r.Down("n1", 0)
	r.unseen(r.comesAndGoes)
	var c *api.VolumeClaim
	r.Eventually("the claim waits anew, or is given up", func(tx *state.Txn) bool {
		c = tx.Claim("default", "v", "a1", "")
		return c == nil || c.State != api.ClaimReleasing || time.Unix(0, c.NextRetry).Sub(began) > 2*lease
	})
	if c == nil || c.State != api.ClaimReleasing {
		t.Errorf("it is given up when the lease of before has ended: %v", c)
	}
}

// What has shut a node off once says nothing of it after it came back.
func TestNodeIsShutOffAgainThoughItsReturnWasMissed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/again", 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "fence")
	script := "#!/bin/sh\ncd " + dir + "\nmkdir first && exit 0\necho again >again\nexit 1\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(l *reconciler.Limits) { l.FenceHook = program })
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a0", "n1", "w", writer, volumestest.Of("other")))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("w", "a0", "n1")
	r.MustClaim("v", "a1", "n1")
	r.Down("n1", 0)
	r.Ends("a0", api.AllocClientStatusLost)
	r.Free("w") // it is shut off
	r.unseen(r.comesAndGoes)
	again := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(dir + "/again")
		again <- err
	}()
	select {
	case err := <-again:
		if s := r.ClaimState("v", "a1"); err != nil || s != api.ClaimReleasing {
			t.Errorf("the claim is %q by what shut its node off before that came back: %v", s, err)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("the node is not shut off again; %s", r.Describe())
	}
}
