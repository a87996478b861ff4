package volumes_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// leased is a volume whose storage cuts nobody off, in use by a1 on the node n1.
func leased(t *testing.T, change func(*api.VolumeSpec), limits ...func(*volumes.Limits)) *rig {
	t.Helper()
	r := newRig(t, limits...)
	r.node("n1", noController)
	v := spec("v")
	change(v)
	r.register(v)
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	return r
}

// lose takes the node away, with its allocation.
func (r *rig) lose(silence time.Duration) {
	r.change("n1", func(n *api.Node) {
		n.Status, n.StatusUpdatedAt, n.Silence = api.NodeStatusDown, time.Now().Unix(), silence
	})
	r.ends("a1", api.AllocClientStatusLost)
}

func (r *rig) releases(volume string) []*api.VolumeRelease {
	return r.state.Read().Volume("default", volume).Releases
}

// explained waits until the claim says what it waits for.
func (r *rig) explained(text string) *api.VolumeClaim {
	r.t.Helper()
	var c *api.VolumeClaim
	r.eventually("the claim says "+text, func(tx *state.Txn) bool {
		c = tx.Claim("default", "v", "a1")
		return c != nil && strings.Contains(c.LastError, text)
	})
	return c
}

func TestLeaseIsPromisedWhereTheStorageCannotFence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		name string
		mode api.AccessMode
		node func(*api.Node)
		spec time.Duration
		want time.Duration
	}{
		{"exclusive", writer, noController, 0, ledger.LeaseDefault},
		{"settable", writer, noController, time.Minute, time.Minute},
		{"shared", api.AccessMultiNodeMultiWriter, noController, time.Minute, 0},
		{"attached", writer, nil, time.Minute, 0},
	} {
		if c.node != nil {
			r.node("n-"+c.name, c.node)
		} else {
			r.node("n-" + c.name)
		}
		v := spec(c.name, c.mode)
		v.Lease = c.spec
		r.register(v)
		r.mustPlace(alloc("a-"+c.name, "n-"+c.name, c.name, c.mode))
		if got := r.state.Read().Claim("default", c.name, "a-"+c.name).Lease; got != c.want {
			t.Errorf("%s: the lease is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestS6LostNodeWithoutAttachKeepsItsLease(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = time.Hour })
	began := time.Now()
	r.lose(2 * time.Hour) // by another server's word: this one began its term a moment ago
	c := r.explained("lease ends")
	if due := time.Unix(0, c.NextRetry); due.Before(began.Add(59*time.Minute)) || due.After(time.Now().Add(time.Hour+2*time.Minute)) {
		t.Errorf("the volume moves in %s, want a whole lease after the term began", time.Until(due))
	}
	if c.State != api.ClaimReleasing {
		t.Errorf("claim is %s", c.State)
	}
	index := r.state.Read().Index()
	r.edit(func(*state.Txn) {})
	r.change("n1", func(n *api.Node) { n.StatusDescription = "still down" })
	if now := r.state.Read().Index(); now > index+3 {
		t.Errorf("%d entries tell the same again", now-index)
	}
}

func TestVolumeMovesWhenTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = time.Second })
	r.node("n2", noController)
	r.lose(0)
	r.mustPlace(alloc("a2", "n2", "v", writer))
	r.mustClaim("v", "a2", "n2")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofFenced || got[0].By != ledger.ByLease || got[0].NodeID != "n1" || got[0].AllocID != "a1" || got[0].At == 0 {
		t.Errorf("recorded %+v", got)
	}
}

func TestPolicyWaitNeedsAnOperator(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.Lease, v.OnNodeLoss = time.Second, api.NodeLossWait })
	r.lose(0)
	if c := r.explained("volume with -force"); c.NextRetry != 0 || c.State != api.ClaimReleasing {
		t.Errorf("claim %+v", c)
	}
	if _, err := r.room.Detach(r.ctx(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
		t.Fatal(err)
	}
	r.free("v")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofAssumed || got[0].By != ledger.ByOperator {
		t.Errorf("recorded %+v", got)
	}
}

func TestPolicyCanBeChangedWhileTheVolumeWaits(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.OnNodeLoss = api.NodeLossWait })
	r.lose(0)
	r.explained("on_node_loss is wait")
	v := spec("v")
	v.OnNodeLoss = api.NodeLossAssume
	r.register(v)
	r.free("v")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofAssumed || got[0].By != ledger.ByPolicy {
		t.Errorf("recorded %+v", got)
	}
}

func (r *rig) reboot() {
	r.edit(func(tx *state.Txn) {
		if err := ledger.Rebooted(tx, "n1"); err != nil {
			r.t.Error(err)
		}
	})
}

func TestAnotherBootProvesThatNothingIsMounted(t *testing.T) {
	t.Parallel()
	r := leased(t, func(*api.VolumeSpec) {})
	r.reboot()
	if s := r.claimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("the claim of an allocation that goes on is %s after a boot", s)
	}
	r.lose(0)
	r.explained("lease ends")
	r.reboot()
	r.free("v")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofFenced || got[0].By != ledger.ByBoot {
		t.Errorf("recorded %+v", got)
	}
}

func TestFencingHookRunsOncePerNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "fence")
	script := "#!/bin/sh\necho \"$1\" >>" + dir + "/runs\n[ -e " + dir + "/works ] || exit 1\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := leased(t, func(*api.VolumeSpec) {}, func(l *volumes.Limits) { l.FenceHook = program })
	r.register(spec("w"))
	r.mustPlace(alloc("b1", "n1", "w", writer))
	r.mustClaim("w", "b1", "n1")
	r.lose(0)
	r.ends("b1", api.AllocClientStatusLost)
	runs := func() int {
		b, _ := os.ReadFile(dir + "/runs")
		return strings.Count(string(b), "n1\n")
	}
	for deadline := time.Now().Add(10 * time.Second); runs() < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a hook that fails is not tried again")
		}
	}
	if s := r.claimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("claim is %s after a failed hook", s)
	}
	if err := os.WriteFile(dir+"/works", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.free("v")
	r.free("w")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofFenced || got[0].By != ledger.ByHook {
		t.Errorf("recorded %+v", got)
	}
}

func TestNodesWordIsRecordedAndTheListIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	for i := range api.ReleasesMax + 2 {
		id := "a" + string(rune('a'+i))
		r.mustPlace(alloc(id, "n1", "v", writer))
		r.mustClaim("v", id, "n1")
		r.ends(id, api.AllocClientStatusComplete)
		r.unmounted("v", id, "n1")
		r.free("v")
	}
	got := r.releases("v")
	if len(got) != api.ReleasesMax || got[0].AllocID != "ac" || got[0].Proof != ledger.ProofReleased || got[0].By != ledger.ByNode {
		t.Errorf("%d recorded, the first %+v", len(got), got[0])
	}
}

func TestPoliciesOfNodeLossAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.node("n1")
	v := spec("v")
	v.OnNodeLoss, v.FenceAfter, v.Lease = "panic", -1, time.Millisecond
	_, err := r.room.Register(r.ctx(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}})
	if !errors.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	for _, want := range []string{`on_node_loss "panic" is unknown: use one of fence, wait, assume`, "fence_after -1ns is negative", "lease 1ms is too short"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
