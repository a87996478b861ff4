package reconciler_test

import (
	"math"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// fencing begins the loss of a node whose storage can cut it off, by a clock that is behind or ahead of
// the leader's, and answers the attachment's detach.
func fencing(t *testing.T, r *rig, ago time.Duration) (began, fenced time.Time) {
	t.Helper()
	r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	began = time.Now()
	r.Down("n1", ago)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Eventually("the node is fenced", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1", "")
		return c == nil || c.State == api.ClaimUnmounted
	})
	return began, time.Now()
}

// The second in which a node was lost is another server's, and cut off.
func TestFenceCountsFromWhenTheLeaderSawTheLoss(t *testing.T) {
	t.Parallel()
	for _, ago := range []time.Duration{time.Minute, 0, -time.Minute} {
		const after = 400 * time.Millisecond
		r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = after })
		if began, fenced := fencing(t, r, ago); fenced.Sub(began) < after {
			t.Errorf("lost %s ago by the other clock: fenced after %s, want %s or more", ago, fenced.Sub(began), after)
		}
	}
}

// A leader that did not see the loss has the stored second only, and waits until it is over.
func TestFenceOfALaterLeaderIsNotEarly(t *testing.T) {
	t.Parallel()
	const after = 300 * time.Millisecond
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = after })
	r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	r.Down("n1", 0)
	second := time.Unix(r.State.Read().Node("n1").StatusUpdatedAt, 0)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Start()
	r.Free("v")
	if d := time.Since(second); d < time.Second+after {
		t.Errorf("fenced %s after the beginning of the second in which the node was lost", d)
	}
}

// A node whose clock is slow keeps its lease for longer than the servers, whose clock may be fast, think.
func TestLeaseOutlastsClocksThatAreWrong(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = lease })
	began := time.Now()
	r.lose(0)
	due := time.Unix(0, r.explained("lease ends").NextRetry).Sub(began)
	if node, server := lease*100/99, due*100/101; server < node {
		t.Errorf("by a clock that is 1 %% fast the volume moves after %s, and by one that is 1 %% slow it is used for %s", server, node)
	}
}

// A lease that is meant to last for ever, of a claim or told by a node, is as long as can be.
func TestLongestLeaseDoesNotEndAtOnce(t *testing.T) {
	t.Parallel()
	r := leased(t, func(*api.VolumeSpec) {})
	r.Edit(func(tx *state.Txn) {
		c := *tx.Claim("default", "v", "a1", "")
		c.Lease = math.MaxInt64
		tx.PutClaim(&c)
	})
	r.lose(0)
	r.Eventually("the claim waits, or is given up", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1", "")
		return c == nil || c.State != api.ClaimReleasing || c.LastError != ""
	})
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
		t.Errorf("it is %q", s)
	}
}

// A leader whose clock was fast wrote times that have not come yet: the next one does not wait for them.
func TestFenceOfALaterLeaderDoesNotWaitForAClockThatWasFast(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = 10 * time.Millisecond })
	r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	r.Down("n1", -24*time.Hour)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Start()
	r.Free("v")
}

func TestNodesAreAskedToUnmountThoughAClockWasFast(t *testing.T) {
	t.Parallel()
	tomorrow := time.Now().Add(24 * time.Hour).UnixNano()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Millisecond })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) {
		a, c, at := *tx.Alloc("a1"), *tx.Claim("default", "v", "a1", ""), *tx.Node("n1")
		a.ClientStatus, a.ModifyTime = api.AllocClientStatusComplete, tomorrow
		tx.PutAlloc(&a)
		c.State, c.Since = api.ClaimReleasing, tomorrow
		tx.PutClaim(&c)
		at.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "w", AllocID: "a0", PluginID: "p", ExternalID: "ext-w", Since: tomorrow}}
		tx.PutNode(&at)
	})
	r.Free("v")
	clean := func(tx *state.Txn) bool { return len(tx.Node("n1").StaleMounts) == 0 }
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableNodes)}, clean); err != nil {
		t.Errorf("the mount of a claim that was given up is left: %v", err)
	}
	if asked := n.Count("NodeVolume.Detach"); asked != 2 {
		t.Errorf("it was asked %d times", asked)
	}
}
