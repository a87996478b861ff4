package reconciler_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// CreateSnapshot answers a snapshot of that name which is there already. One of an earlier day is not deleted because
// its name was asked for once more, and that failed.
func TestSnapshotOfAnEarlierDayIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	n.SnapshotsCut(time.Now().Add(-24 * time.Hour))
	r.Register(volumestest.Spec("v"))
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("made")
	}
	r.noIntents()
	if left := p.list(); len(left) != 1 || n.Count("Controller.SnapshotDelete") != 0 {
		t.Errorf("at the provider: %v", left)
	}
}

// A volume that is copied from a snapshot keeps it, whatever became of the request for the snapshot.
func TestUnwantedSnapshotStaysWhileAVolumeIsMadeFromIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	copied := n.Hold("Controller.Create")
	made := make(chan error, 1)
	go func() {
		spec := volumestest.Made("w")
		spec.SnapshotID = "snap"
		made <- r.Create(spec)
	}()
	n.Await(t, "Controller.Create")
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("made")
	}
	keys := []state.Key{state.TableKey(state.TableSnapshots)}
	if err := state.Until(r.Context(), r.State, keys, func(tx *state.Txn) bool {
		i := tx.SnapshotIntent("p", "snap", true)
		return i == nil && tx.SnapshotIntent("p", "s", false) == nil || i != nil && i.LastError != ""
	}); err != nil {
		t.Fatal(err)
	}
	if n.Count("Controller.SnapshotDelete") != 0 {
		t.Error("the snapshot is deleted while it is copied")
	}
	copied()
	if err := <-made; err != nil {
		t.Error(err)
	}
	r.noIntents()
	if n.Count("Controller.SnapshotDelete") != 1 {
		t.Error("the snapshot is left")
	}
}

// What a node answers to the leader may quote a secret, as its reports may.
func TestErrorsOfUnmountsShowNoSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Millisecond })
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"password": "tr0ub4dor"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("NodeVolume.Detach", codes.Internal, "umount -o password=tr0ub4dor: busy")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Eventually("the failure is shown", func(tx *state.Txn) bool { return tx.Claim("default", "v", "a1", "").LastError != "" })
	if text := r.State.Read().Claim("default", "v", "a1", "").LastError; len(text) == 0 || strings.Contains(text, "tr0ub4dor") {
		t.Errorf("the claim shows %q", text)
	}
}

// Some drivers answer a snapshot of another volume that has the name. It is somebody's, whenever it was cut.
func TestSnapshotOfAnotherVolumeIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	n.SnapshotsOf("ext-w")
	r.Register(volumestest.Spec("v"))
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("made")
	}
	r.noIntents()
	if left := p.list(); len(left) != 1 || n.Count("Controller.SnapshotDelete") != 0 {
		t.Errorf("at the provider: %v", left)
	}
}
