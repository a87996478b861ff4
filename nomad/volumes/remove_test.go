package volumes_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// records is a log that tests read.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *records) loud() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, line := range strings.Split(r.buf.String(), "\n") {
		if strings.Contains(line, "[ERROR]") || strings.Contains(line, "[WARN]") {
			out = append(out, line)
		}
	}
	return out
}

// What is expected to be refused, or to be tried again, is no error of the server; the refusal
// names the volume and its holder.
func TestExpectedRefusalsAreNotLoggedAsErrors(t *testing.T) {
	r := newRig(t)
	r.Halt()
	log := &records{}
	r.Build(hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace}), volumestest.Quick())
	r.Start()
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")

	err := r.Place(volumestest.Alloc("a2", "n2", "v", writer, volumestest.Of("other")))
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `volume "v"`) || !strings.Contains(err.Error(), "a1") {
		t.Errorf("refusal is %v", err)
	}
	if _, err := r.Claim("v", "a2", "n2"); !strings.Contains(err.Error(), `volume "v"`) {
		t.Errorf("refusal is %v", err)
	}
	if _, err := r.Service.Delete(r.Context(), &api.VolumeDeleteRequest{VolumeID: "v"}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("refusal is %v", err)
	}
	n.Says("Controller.Unpublish", codes.Internal, "device is busy")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Eventually("the failure is shown", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "busy")
	})
	n.On("Controller.Unpublish", nil)
	r.Free("v")
	if lines := log.loud(); len(lines) > 0 {
		t.Errorf("logged: %s", strings.Join(lines, "\n"))
	}
}

func TestDeleteRefusedWhileClaimed(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	err := r.Delete("v")
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
		t.Fatalf("error is %v", err)
	}
	if n.Count("Controller.Delete") != 0 {
		t.Fatal("the driver was asked to delete a volume in use")
	}
	r.MustClaim("v", "a1", "n1")
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	if r.State.Read().Volume("default", "v") != nil || n.Count("Controller.Delete") != 1 {
		t.Fatal("the volume is not deleted")
	}
}

func TestNobodyClaimsAVolumeThatIsBeingDeleted(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	n.On("Controller.Delete", func(context.Context, any) error { <-release; return nil })
	done := make(chan error, 1)
	go func() { done <- r.Delete("v") }()
	n.Await(t, "Controller.Delete")
	if err := r.Place(volumestest.Alloc("a1", "n1", "v", writer)); !errors.Is(err, fault.Conflict) {
		t.Fatalf("a volume that is being deleted is claimed: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDeleteThatTheDriverRefusesGivesTheVolumeBack(t *testing.T) {
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	n.Says("Controller.Delete", codes.FailedPrecondition, "it has snapshots")
	if err := r.Delete("v"); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "it has snapshots") {
		t.Fatalf("error is %v", err)
	}
	if d := r.Get("v"); d.State != api.VolumeAvailable || !strings.Contains(d.LastError, "it has snapshots") {
		t.Fatalf("details are %+v", d)
	}
}

func TestDetachWorksForAllocsThatAreGone(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	detach := func(force bool) error {
		_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
		t.Fatalf("a running allocation loses its volume: %v", err)
	}
	r.Edit(func(tx *state.Txn) { tx.DeleteAlloc("a1") })
	if err := detach(false); err != nil {
		t.Fatal(err)
	}
	if n.Count("NodeVolume.Detach") != 1 {
		t.Fatal("the node was not asked to unmount")
	}
	r.Free("v")
	if err := detach(false); err != nil {
		t.Fatalf("what is detached once more: %v", err)
	}
	if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "w", NodeID: "n1"}); !errors.Is(err, fault.NotFound) {
		t.Fatalf("a volume that does not exist: %v", err)
	}
}

// Who is refused while tasks still write is told how to end them, before the way that leaves two writers.
func TestDetachOfWhatIsBeingStoppedNamesItsEnd(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.On("NodeVolume.Detach", func(context.Context, any) error {
		return fault.New(fault.Conflict, "allocation a1 still runs on this node")
	})
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) {
		a := *tx.Alloc("a1")
		a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusRunning
		tx.PutAlloc(&a)
	})
	_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1"})
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "`nomad alloc signal -s SIGKILL a1` ends it; `nomad volume detach -force v n1` asserts") {
		t.Fatalf("refused by %v", err)
	}
}

// Whatever a driver and a node do not answer, an operator can end.
func TestForcedDetachEndsWhatNobodyElseCan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", volumestest.NodeOnly)
	c := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	c.Says("Controller.Unpublish", codes.Internal, "instance i-123 was terminated")
	r.Down("n1", time.Minute)
	detach := func(q api.VolumeDetachRequest) error {
		q.NodeID, q.By, q.Reason = "n1", "alice", "the machine was scrapped"
		_, err := r.Service.Detach(r.Context(), &q)
		return err
	}
	if err := detach(api.VolumeDetachRequest{VolumeID: "v", Force: true}); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
	if rel := r.State.Read().Volume("default", "v").Releases; len(rel) != 1 || rel[0].By != "operator alice" || rel[0].Reason != "the machine was scrapped" || rel[0].Proof != "assumed" {
		t.Errorf("recorded as %+v", rel[0])
	}
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer, volumestest.Of("other")))
	r.MustClaim("v", "a2", "n2")

	// What may still be mounted is the last that is left.
	if len(r.State.Read().Node("n1").StaleMounts) != 1 {
		t.Fatalf("stale mounts are %+v", r.State.Read().Node("n1").StaleMounts)
	}
	if err := detach(api.VolumeDetachRequest{VolumeID: "v", Force: true}); err != nil || len(r.State.Read().Node("n1").StaleMounts) != 0 {
		t.Errorf("stale mounts: %v, %+v", err, r.State.Read().Node("n1").StaleMounts)
	}
	if err := detach(api.VolumeDetachRequest{VolumeID: "v", Force: true}); err != nil {
		t.Errorf("nothing left: %v", err)
	}
}

// An attachment outlives the registration of its volume.
func TestForcedDetachOfAVolumeThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", volumestest.NodeOnly)
	c := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	c.Says("Controller.Unpublish", codes.Internal, "later")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
		t.Fatal(err)
	}
	q := &api.VolumeDetachRequest{PluginID: "p", ExternalID: "ext-v", NodeID: "n1"}
	if _, err := r.Service.Detach(r.Context(), q); !errors.Is(err, fault.Invalid) {
		t.Errorf("without force: %v", err)
	}
	q.Force = true
	if _, err := r.Service.Detach(r.Context(), q); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
}

func TestForcedDetachLeavesWhatAnotherSpecificationUses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	other := volumestest.Spec("w")
	other.ExternalID = "ext-v"
	r.Register(volumestest.Spec("v"), other)
	r.MustPlace(volumestest.Alloc("a1", "n1", "w", writer))
	r.MustClaim("w", "a1", "n1")
	q := &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}
	if _, err := r.Service.Detach(r.Context(), q); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `volume "w"`) {
		t.Errorf("error is %v", err)
	}
	if r.ClaimState("w", "a1") != api.ClaimReady {
		t.Errorf("the claim is %q", r.ClaimState("w", "a1"))
	}
	q.Reason = strings.Repeat("x", 2000)
	if _, err := r.Service.Detach(r.Context(), q); !errors.Is(err, fault.TooLarge) {
		t.Errorf("with a long reason: %v", err)
	}
}

func TestDetachOfALostNodeNeedsForce(t *testing.T) {
	r := newRig(t)
	n2 := r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n2.Says("Controller.Unpublish", codes.Internal, "later")
	r.Down("n1", 0)
	detach := func(force bool) error {
		_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
	if err := detach(true); err != nil {
		t.Fatal(err)
	}
	r.Free("v")
	if a := r.State.Read().WrittenOffTo("p", "ext-v", "n1"); a == nil || a.Proof != "assumed" {
		t.Fatalf("written off is %+v", a)
	}
}

func TestMissingVolumeAndPluginWithoutController(t *testing.T) {
	r := newRig(t)
	r.Node("n1", volumestest.NoController)
	if err := r.Delete("v"); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
	r.Register(volumestest.Spec("v"))
	if err := r.Delete("v"); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "deregister") {
		t.Fatalf("error is %v", err)
	}
}

func TestForcedDeregisterStillCleansUp(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "s"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	deregister := func(force bool) error {
		_, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: force})
		return err
	}
	for _, force := range []bool{false, true} {
		if err := deregister(force); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v" is held by allocation a1`) {
			t.Fatalf("force %v: %v", force, err)
		}
	}
	r.Ends("a1", api.AllocClientStatusComplete)
	if err := deregister(true); err != nil {
		t.Fatal(err)
	}
	var secret string
	n.On("Controller.Unpublish", func(_ context.Context, req any) error {
		secret = req.(*api.ControllerUnpublishRequest).Secrets["key"]
		return nil
	})
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if secret != "s" {
		t.Fatal("the detach lacks the volume's secrets")
	}
}
