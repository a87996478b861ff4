package reconciler_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// provider is the truth about volumes and snapshots, by the names of their creation.
type provider struct {
	mu sync.Mutex
	// answer is what the next calls of a method answer, after they had their effect where has says so.
	answers map[string][]codes.Code
	has     map[string]bool
	asked   map[string]int
}

func provide(n *volumestest.Node) *provider {
	p := &provider{answers: map[string][]codes.Code{}, has: map[string]bool{}, asked: map[string]int{}}
	n.On("Controller.Create", func(_ context.Context, q any) error {
		return p.call("Controller.Create", func() { p.has[q.(*api.ControllerCreateRequest).Name] = true })
	})
	n.On("Controller.Delete", func(_ context.Context, q any) error {
		return p.call("Controller.Delete", func() { delete(p.has, strings.TrimPrefix(q.(*api.ControllerDeleteRequest).ExternalID, "ext-")) })
	})
	n.On("Controller.Snapshot", func(_ context.Context, q any) error {
		return p.call("Controller.Snapshot", func() { p.has["snap"] = true })
	})
	n.On("Controller.SnapshotDelete", func(_ context.Context, q any) error {
		return p.call("Controller.SnapshotDelete", func() { delete(p.has, q.(*api.ControllerSnapshotDeleteRequest).ID) })
	})
	return p
}

func (p *provider) call(method string, effect func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[method]++
	answers := p.answers[method]
	if len(answers) == 0 {
		effect()
		return nil
	}
	p.answers[method] = answers[1:]
	if answers[0] == codes.DeadlineExceeded || answers[0] == codes.DataLoss { // done, and the answer is lost
		effect()
	}
	return volumestest.Says(method, answers[0], "said "+answers[0].String())
}

// script has the next calls of a method answer so; the last answer but OK is repeated when again is set.
func (p *provider) script(method string, again int, answers ...codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range again {
		answers = append(answers, answers[len(answers)-1])
	}
	p.answers[method] = answers
}

func (p *provider) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.has))
}

func (p *provider) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[method]
}

const always = 1000

// forAnAnswer has callers wait for the end of an operation.
func forAnAnswer(l *reconciler.Limits) { l.Patience = 30 * time.Second }

// A creation whose answer was lost may have made the volume, whatever the driver answers next.
func TestVolumeThatMayHaveBeenMadeIsDeletedForGood(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	p.script("Controller.Create", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Denied) {
		t.Fatalf("create: %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeFailed {
		t.Fatalf("it is %s", d.State)
	}
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	if left := p.list(); len(left) > 0 || r.State.Read().Volume("default", "v") != nil {
		t.Errorf("at the provider %v, with us %+v", left, r.State.Read().Volume("default", "v"))
	}
}

func TestVolumeThatWasNotMadeIsForgottenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	p.script("Controller.Create", always, codes.InvalidArgument)
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Invalid) {
		t.Fatalf("create: %v", err)
	}
	if err := r.Delete("v"); err != nil || p.count("Controller.Create") != 1 || r.State.Read().Volume("default", "v") != nil {
		t.Errorf("delete: %v after %d creations", err, p.count("Controller.Create"))
	}
}

// What a leader did that is gone is not known to the next one.
func TestCreationOfAFormerLeaderMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		p := provide(n)
		r.Halt()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := r.Service.Create(ctx, &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{volumestest.Made("v")}}); err == nil {
			t.Fatal("created without a leader")
		}
		p.mu.Lock()
		p.has["v"] = true // the former leader called, and died before it had recorded anything
		p.mu.Unlock()
		p.script("Controller.Create", 0, codes.PermissionDenied)
		r.Start()
		r.Eventually("it has failed", func(tx *state.Txn) bool { return tx.Volume("default", "v").Provision.State == api.VolumeFailed })
		if err := r.Delete("v"); err != nil || len(p.list()) > 0 {
			t.Errorf("delete: %v, left %v", err, p.list())
		}
	})
}

// Drivers that answer INTERNAL to what they cannot make, each time.
func TestCreationThatNeverSucceedsIsGivenUpByOneCommand(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Internal, codes.Unknown} {
		r := newRig(t, forAnAnswer)
		p := provide(r.Node("n1"))
		p.script("Controller.Create", always, code)
		err := r.Create(volumestest.Made("v"))
		if err == nil || !strings.Contains(err.Error(), "said "+code.String()) || p.count("Controller.Create") < 3 {
			t.Fatalf("create: %v after %d calls", err, p.count("Controller.Create"))
		}
		err = r.Delete("v")
		if err == nil || !strings.Contains(err.Error(), "look for it at the provider") || r.State.Read().Volume("default", "v") != nil {
			t.Errorf("delete: %v; %+v", err, r.State.Read().Volume("default", "v"))
		}
		if n := p.count("Controller.Create"); n > 8 { // three for each command, and what is tried between them
			t.Errorf("%d calls", n)
		}
	}
}

func TestCreationThatNeverSucceedsIsCorrectedByOneCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	made := map[string]bool{}
	n.On("Controller.Create", func(_ context.Context, q any) error {
		if q.(*api.ControllerCreateRequest).Parameters["type"] != "right" {
			return volumestest.Says("Controller.Create", codes.Internal, "unknown type")
		}
		made[q.(*api.ControllerCreateRequest).Name] = true
		return nil
	})
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	right := volumestest.Made("v")
	right.Parameters = map[string]string{"type": "right"}
	if err := r.Create(right); err != nil || !made["v"] {
		t.Fatalf("the corrected creation: %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeAvailable || d.Parameters["type"] != "right" {
		t.Errorf("it is %+v", d)
	}
}

// What the earlier creation did make is deleted before the corrected one makes another.
func TestCorrectedCreationUndoesTheEarlierOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	p.script("Controller.Create", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	larger := volumestest.Made("v")
	larger.RequestedCapacityMin = 300
	if err := r.Create(larger); err != nil {
		t.Fatal(err)
	}
	if p.count("Controller.Delete") != 1 || r.Get("v").Capacity != 300 || !slices.Equal(p.list(), []string{"v"}) {
		t.Errorf("%d deletions, capacity %d, at the provider %v", p.count("Controller.Delete"), r.Get("v").Capacity, p.list())
	}
}

// Some drivers use names as ids. What the provider has by the name of a creation that was never answered may have been
// there before, with somebody's data.
func TestVolumeThatOnlyHasTheNameOfACreationIsKept(t *testing.T) {
	t.Parallel()
	for what, give := range map[string]func(*rig) error{
		"delete":  func(r *rig) error { return r.Delete("v") },
		"replace": func(r *rig) error { s := volumestest.Made("v"); s.RequestedCapacityMin = 300; return r.Create(s) },
	} {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		p := provide(n)
		p.script("Controller.Create", always, codes.Internal)
		if err := r.Create(volumestest.Made("v")); err == nil {
			t.Fatal("created")
		}
		n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, By: "ListVolumes"})
		err := give(r)
		if err == nil || !strings.Contains(err.Error(), "nomad volume deregister -force v") || !strings.Contains(err.Error(), `volume "v"`) {
			t.Errorf("%s: %v", what, err)
		}
		if v := r.State.Read().Volume("default", "v"); n.Count("Controller.Delete") != 0 || v == nil || v.Provision.State != api.VolumeFailed {
			t.Fatalf("%s: %d deletions, volume %+v", what, n.Count("Controller.Delete"), v)
		}
		p.script("Controller.Create", 0) // the driver answers at last: it is ours
		if err := r.Delete("v"); err != nil || p.count("Controller.Delete") != 1 || r.State.Read().Volume("default", "v") != nil {
			t.Errorf("%s: then delete: %v after %d deletions", what, err, p.count("Controller.Delete"))
		}
	}
}

func TestCreationThatMayHaveMadeAVolumeIsForgottenByForce(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	provide(n).script("Controller.Create", always, codes.Internal)
	n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, By: "ListVolumes"})
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	if err := r.Delete("v"); err == nil {
		t.Fatal("deleted")
	}
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil || n.Count("Controller.Delete") != 0 {
		t.Errorf("deregister: %v after %d deletions", err, n.Count("Controller.Delete"))
	}
}

// Only the right secrets tell what was made.
func TestCreationWithRefusedSecretsIsNotGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	p.script("Controller.Create", 5, codes.DeadlineExceeded, codes.Unauthenticated)
	if err := r.Create(volumestest.Made("v")); err == nil {
		t.Fatal("created")
	}
	if err := r.Delete("v"); err != nil && !errors.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	r.Eventually("it is deleted once the secrets are accepted", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
	if left := p.list(); len(left) > 0 {
		t.Errorf("at the provider: %v", left)
	}
}

// A volume whose deletion its driver refuses in the end may be gone by an earlier try.
func TestDeletionOfUnknownOutcomeIsVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	n.Knows(api.ControllerVerifyResponse{Exists: api.KnownNo})
	p.script("Controller.Delete", always, codes.DeadlineExceeded, codes.PermissionDenied)
	if err := r.Delete("v"); err != nil || r.State.Read().Volume("default", "v") != nil {
		t.Errorf("delete: %v", err)
	}
}

// The deletion of long ago does not hit those who use the volume now.
func TestDeletionLooksAgainBeforeEachCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan struct{})
	n.On("Controller.Delete", func(context.Context, any) error {
		<-claimed
		return volumestest.Says("Controller.Delete", codes.Unavailable, "in maintenance")
	})
	deleted := make(chan error, 1)
	go func() { deleted <- r.Delete("v") }()
	n.Await(t, "Controller.Delete")
	r.Edit(func(tx *state.Txn) { // as if there were a way to a claim
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "w", AllocID: "a1", NodeID: "n1", PluginID: "p", ExternalID: "ext-v", State: api.ClaimReady})
	})
	close(claimed)
	if err := <-deleted; err == nil || !strings.Contains(err.Error(), "a1") {
		t.Errorf("delete: %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeAvailable || n.Count("Controller.Delete") != 1 {
		t.Errorf("the volume is %s after %d calls", d.State, n.Count("Controller.Delete"))
	}
}

// A snapshot whose answer was lost may have been cut, whatever the driver answers next: nobody else would delete it.
func TestSnapshotThatMayHaveBeenMadeIsDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	r.Register(volumestest.Spec("v"))
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.PermissionDenied, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); !errors.Is(err, fault.Denied) {
		t.Fatalf("answer %v", err)
	}
	r.noIntents()
	if left := p.list(); len(left) > 0 || p.count("Controller.SnapshotDelete") != 1 {
		t.Errorf("at the provider: %v after %d deletions", left, p.count("Controller.SnapshotDelete"))
	}
}

// One that is asked for once more is wanted again.
func TestSnapshotThatIsAskedForAgainIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	r.Register(volumestest.Spec("v"))
	p.script("Controller.Snapshot", always, codes.DeadlineExceeded, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); !errors.Is(err, fault.Denied) {
		t.Fatalf("answer %v", err)
	}
	p.script("Controller.Snapshot", 0)
	out, err := r.Snapshot("s")
	if err == nil && out.Snapshots[0].ID == "snap" {
		r.noIntents()
	}
	if kept := p.list(); err == nil && len(kept) != 1 {
		t.Errorf("at the provider: %v, answer %+v", kept, out)
	}
}

// Who asked for a snapshot has its id from when it was cut, and may rely on it: what its driver says later takes it from
// nobody, neither for good nor for a while.
func TestSnapshotThatWasCutIsNotDeletedByItself(t *testing.T) {
	t.Parallel()
	for code, final := range map[codes.Code]bool{
		codes.InvalidArgument: true, codes.ResourceExhausted: true, codes.Internal: false, codes.PermissionDenied: false,
	} {
		r := newRig(t)
		n := r.Node("n1")
		p := provide(n)
		r.Register(volumestest.Spec("v"))
		n.ReadyAfter(1 << 30)
		if out, err := r.Snapshot("s"); err != nil || out.Snapshots[0].IsReady {
			t.Fatalf("%s: answer %+v, %v", code, out, err)
		}
		var calls atomic.Int32
		n.On("Controller.Snapshot", func(context.Context, any) error {
			if calls.Add(1) <= 6 {
				return volumestest.Says("Controller.Snapshot", code, "said "+code.String())
			}
			n.ReadyAfter(1)
			return nil
		})
		r.noIntents()
		if left := p.list(); len(left) != 1 || n.Count("Controller.SnapshotDelete") != 0 {
			t.Errorf("%s: at the provider %v", code, left)
		}
		if asked := calls.Load(); (asked > 6) == final {
			t.Errorf("%s: its driver was asked %d times", code, asked)
		}
	}
}

func (r *rig) noIntents() {
	r.T.Helper()
	keys := []state.Key{state.TableKey(state.TableSnapshots)}
	if err := state.Until(r.Context(), r.State, keys, func(*state.Txn) bool { return r.Intents() == 0 }); err != nil {
		r.T.Fatalf("%v: %d intents", err, r.Intents())
	}
}

// Limits and controllers that cannot say nothing about what was made.
func TestUndoIsNotGivenUpByWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	p := provide(r.Node("n1"))
	p.script("Controller.Create", 12, codes.DeadlineExceeded, codes.PermissionDenied, codes.ResourceExhausted)
	if err := r.Create(volumestest.Made("v")); !errors.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	_ = r.Delete("v")
	r.Eventually("it is deleted when there is an answer", func(tx *state.Txn) bool { return tx.Volume("default", "v") == nil })
	if left := p.list(); len(left) > 0 {
		t.Errorf("at the provider: %v", left)
	}
}
