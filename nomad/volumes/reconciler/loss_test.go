package reconciler_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestLostNodeIsFencedBeforeTheVolumeMoves(t *testing.T) {
	r := newRig(t)
	n2 := r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n2.Says("Controller.Unpublish", codes.Internal, "storage does not answer")
	r.Down("n1", 0)
	r.Ends("a1", api.AllocClientStatusLost)
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("claim of a lost node is %q at once", s)
	}
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.Eventually("the fence is tried", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.State == api.AttachmentUnpublishing && a.Proof == "fenced" && a.LastError != ""
	})
	if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting {
		t.Fatalf("the successor is %q before the storage said yes", s)
	}
	n2.On("Controller.Unpublish", nil)
	r.MustClaim("v", "a2", "n2")
}

// An allocation out of sight keeps its claim while its node may come back; once it was fenced its
// return gets nothing, and its late report does not touch the claim of its replacement.
func TestVolumeOfAnUnknownAllocationHasOneUser(t *testing.T) {
	r := newRig(t)
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
	r.Ends("a1", api.AllocClientStatusUnknown)
	if s := r.ClaimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("the claim of an allocation out of sight is %q", s)
	}
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer), "a1")
	if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting {
		t.Fatalf("the claim of its replacement is %q", s)
	}
	if n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") != 0 {
		t.Fatal("detached from a node that may come back")
	}

	n1.Disconnect()
	r.Down("n1", time.Minute)
	if got := r.MustClaim("v", "a2", "n2"); got.Claim.State != api.ClaimReady {
		t.Fatalf("the replacement's claim is %q", got.Claim.State)
	}
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if _, err := r.Claim("v", "a1", "n1"); err == nil {
		t.Error("the allocation that is back got the volume beside its replacement")
	}
	r.Unmounted("v", "a1", "n1")
	if s := r.ClaimState("v", "a2"); s != api.ClaimReady {
		t.Errorf("after the late report the replacement's claim is %q", s)
	}
}

// leased is a volume whose storage cuts nobody off, in use by a1 on the node n1.
func leased(t *testing.T, change func(*api.VolumeSpec), limits ...func(*reconciler.Limits)) *rig {
	t.Helper()
	r := newRig(t, limits...)
	r.Node("n1", volumestest.NoController)
	v := volumestest.Spec("v")
	change(v)
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	return r
}

// lose takes the node away, with its allocation.
func (r *rig) lose(silence time.Duration) {
	r.Change("n1", func(n *api.Node) {
		n.Status, n.StatusUpdatedAt, n.Silence = api.NodeStatusDown, time.Now().Unix(), silence
	})
	r.Ends("a1", api.AllocClientStatusLost)
}

func (r *rig) releases(volume string) []*api.VolumeRelease {
	return r.State.Read().Volume("default", volume).Releases
}

// explained waits until the claim says what it waits for.
func (r *rig) explained(text string) *api.VolumeClaim {
	r.T.Helper()
	var c *api.VolumeClaim
	r.Eventually("the claim says "+text, func(tx *state.Txn) bool {
		c = tx.Claim("default", "v", "a1", "")
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
		{"exclusive", writer, volumestest.NoController, 0, ledger.LeaseDefault},
		{"settable", writer, volumestest.NoController, time.Minute, time.Minute},
		{"shared", api.AccessMultiNodeMultiWriter, volumestest.NoController, time.Minute, 0},
		{"attached", writer, nil, time.Minute, 0},
	} {
		if c.node != nil {
			r.Node("n-"+c.name, c.node)
		} else {
			r.Node("n-" + c.name)
		}
		v := volumestest.Spec(c.name, c.mode)
		v.Lease = c.spec
		r.Register(v)
		r.MustPlace(volumestest.Alloc("a-"+c.name, "n-"+c.name, c.name, c.mode))
		if got := r.State.Read().Claim("default", c.name, "a-"+c.name, "").Lease; got != c.want {
			t.Errorf("%s: the lease is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLostNodeWithoutAttachKeepsItsLease(t *testing.T) {
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
	index := r.State.Read().Index()
	r.Edit(func(*state.Txn) {})
	r.Change("n1", func(n *api.Node) { n.StatusDescription = "still down" })
	if now := r.State.Read().Index(); now > index+3 {
		t.Errorf("%d entries tell the same again", now-index)
	}
}

func TestVolumeMovesWhenTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = time.Second })
	r.Node("n2", volumestest.NoController)
	r.lose(0)
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.MustClaim("v", "a2", "n2")
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
	if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofAssumed || got[0].By != ledger.ByOperator {
		t.Errorf("recorded %+v", got)
	}
}

func TestPolicyCanBeChangedWhileTheVolumeWaits(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.OnNodeLoss = api.NodeLossWait })
	r.lose(0)
	r.explained("on_node_loss is wait")
	v := volumestest.Spec("v")
	v.OnNodeLoss = api.NodeLossAssume
	r.Register(v)
	r.Free("v")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofAssumed || got[0].By != ledger.ByPolicy {
		t.Errorf("recorded %+v", got)
	}
}

// A volume that nobody may use alone any more needs no proof, also when it was another spec of it that let somebody.
func TestUsesCanBeChangedWhileTheVolumeWaits(t *testing.T) {
	t.Parallel()
	const shared = api.AccessMultiNodeMultiWriter
	for name, change := range map[string]func(*rig) error{
		"by its spec": func(r *rig) error {
			r.Register(volumestest.Spec("v", shared))
			return nil
		},
		"by another spec": func(r *rig) error {
			_, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "w"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Node("n1", volumestest.NoController)
			r.Register(volumestest.Spec("v", shared))
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", shared))
			r.MustClaim("v", "a1", "n1")
			alone := volumestest.Spec("v", shared, writer)
			if name == "by another spec" {
				alone = volumestest.Spec("w", writer)
				alone.ExternalID = "ext-v"
			}
			r.Register(alone)
			r.lose(0)
			r.explained("neither its storage nor a lease")
			if err := change(r); err != nil {
				t.Fatal(err)
			}
			r.Free("v")
		})
	}
}

func (r *rig) reboot() {
	r.Edit(func(tx *state.Txn) {
		if err := ledger.Rebooted(tx, "n1", nil); err != nil {
			r.T.Error(err)
		}
	})
}

func TestAnotherBootProvesThatNothingIsMounted(t *testing.T) {
	t.Parallel()
	r := leased(t, func(*api.VolumeSpec) {})
	r.reboot()
	if s := r.ClaimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("the claim of an allocation that goes on is %s after a boot", s)
	}
	r.lose(0)
	r.explained("lease ends")
	r.reboot()
	r.Free("v")
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
	r := leased(t, func(*api.VolumeSpec) {}, func(l *reconciler.Limits) { l.FenceHook = program })
	r.Register(volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("b1", "n1", "w", writer))
	r.MustClaim("w", "b1", "n1")
	r.lose(0)
	r.Ends("b1", api.AllocClientStatusLost)
	runs := func() int {
		b, _ := os.ReadFile(dir + "/runs")
		return strings.Count(string(b), "n1\n")
	}
	for deadline := time.Now().Add(30 * time.Second); runs() < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a hook that fails is not tried again")
		}
	}
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("claim is %s after a failed hook", s)
	}
	if err := os.WriteFile(dir+"/works", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
	r.Free("w")
	if got := r.releases("v"); len(got) != 1 || got[0].Proof != ledger.ProofFenced || got[0].By != ledger.ByHook {
		t.Errorf("recorded %+v", got)
	}
}

func TestNodesWordIsRecordedAndTheListIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	for i := range api.ReleasesMax + 2 {
		id := "a" + string(rune('a'+i))
		r.MustPlace(volumestest.Alloc(id, "n1", "v", writer))
		r.MustClaim("v", id, "n1")
		r.Ends(id, api.AllocClientStatusComplete)
		r.Unmounted("v", id, "n1")
		r.Free("v")
	}
	got := r.releases("v")
	if len(got) != api.ReleasesMax || got[0].AllocID != "ac" || got[0].Proof != ledger.ProofReleased || got[0].By != ledger.ByNode {
		t.Errorf("%d recorded, the first %+v", len(got), got[0])
	}
}

func TestClaimOfALostNodeIsFreedByItself(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = time.Nanosecond })
	r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Down("n1", time.Minute)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Free("v")
}

func TestNodeThatReturnsInTimeKeepsItsSay(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Down("n1", 0)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing || n.Count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %q", s)
	}
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
}

// The hook and the storage are two ways to the same end: neither waits for the other.
func TestHangingHookDelaysNoOtherFence(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nread x < "+pipe+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(l *reconciler.Limits) { l.FenceHook, l.FenceAfter = hook, 50*time.Millisecond })
	r.Node("n1", volumestest.NodeOnly)
	r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Down("n1", 0)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Free("v")
	if by := r.releases("v")[0].By; by != ledger.ByProvider {
		t.Errorf("fenced by %s", by)
	}
}

// What neither the storage nor a lease keeps off stays where it is: nobody promised anything.
func TestVolumeWithoutFenceAndLeaseWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) { // as when it was taken on the word of a controller that was wrong
		c := *tx.Claim("default", "v", "a1", "")
		c.Attach, c.Lease = false, 0
		tx.PutClaim(&c)
	})
	r.lose(time.Hour)
	if c := r.explained("an operator"); c.NextRetry != 0 {
		t.Errorf("it moves at %s: %s", time.Unix(0, c.NextRetry), c.LastError)
	}
}

// With both fences the users stop before their lease ends, and the storage moves after that.
func TestWithBothFencesTheStorageWaitsForTheLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = time.Millisecond })
	n := r.Node("n1")
	r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) {
		c := *tx.Claim("default", "v", "a1", "")
		c.Attach, c.Lease = true, time.Hour
		tx.PutClaim(&c)
	})
	r.lose(0)
	c := r.explained("then it is detached by its storage")
	if at := time.Unix(0, c.NextRetry); time.Until(at) < 30*time.Minute || n.Count("Controller.Unpublish") > 0 {
		t.Errorf("it is detached at %s", at)
	}
}
