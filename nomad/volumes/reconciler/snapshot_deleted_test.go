package reconciler_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// snapshotLater asks for the snapshot "s" without waiting for the answer.
func (r *rig) snapshotLater() <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := r.Snapshot("s")
		answer <- err
	}()
	return answer
}

// deleteLater deletes the snapshot "snap" without waiting for the answer.
func (r *rig) deleteLater() <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := r.deleteSnapshot("snap", false)
		answer <- err
	}()
	return answer
}

// A driver answers a snapshot of that name which is there already. One that its user is deleting is no answer.
func TestSnapshotIsNotAnsweredByOneThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	release := n.Hold("Controller.SnapshotDelete")
	deleted := r.deleteLater()
	n.Await(t, "Controller.SnapshotDelete")
	again := r.snapshotLater()
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(tx *state.Txn) bool {
		i := tx.SnapshotIntent("p", "s", false)
		return i != nil && i.LastError != "" || i == nil && len(again) > 0
	}); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if err := <-again; err != nil {
		t.Error(err)
	}
	r.noIntents()
	if left := p.list(); len(left) != 1 {
		t.Errorf("at the provider: %v after the answer that it is made", left)
	}
}

// Nor is one that was being deleted when the driver was asked, and is gone when its answer comes.
func TestSnapshotIsNotAnsweredByOneThatWasBeingDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	release := n.Hold("Controller.SnapshotDelete")
	deleted := r.deleteLater()
	n.Await(t, "Controller.SnapshotDelete")
	slow := make(chan struct{})
	n.On("Controller.Snapshot", func(ctx context.Context, _ any) error {
		err := p.call("Controller.Snapshot", func() { p.has["snap"] = true })
		select {
		case <-slow:
		case <-ctx.Done():
		}
		return err
	})
	again := r.snapshotLater()
	n.Await(t, "Controller.Snapshot")
	release()
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	close(slow)
	if err := <-again; err != nil {
		t.Error(err)
	}
	r.noIntents()
	if left := p.list(); len(left) != 1 {
		t.Errorf("at the provider: %v after the answer that it is made", left)
	}
}

// The same holds for volumes: what was being deleted when the driver was asked is no answer.
func TestCreationIsNotAnsweredByAVolumeThatWasBeingDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	p.has["w"] = true
	old := volumestest.Spec("old")
	old.ExternalID = "ext-w"
	r.Register(old)
	release := n.Hold("Controller.Delete")
	deleted := make(chan error, 1)
	go func() { deleted <- r.Delete("old") }()
	n.Await(t, "Controller.Delete")
	slow := make(chan struct{})
	n.On("Controller.Create", func(ctx context.Context, q any) error {
		err := p.call("Controller.Create", func() { p.has[q.(*api.ControllerCreateRequest).Name] = true })
		select {
		case <-slow:
		case <-ctx.Done():
		}
		return err
	})
	made := make(chan error, 1)
	go func() { made <- r.Create(volumestest.Made("w")) }()
	n.Await(t, "Controller.Create")
	release()
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	close(slow)
	if err := <-made; err != nil {
		t.Error(err)
	}
	if left := p.list(); len(left) != 1 {
		t.Errorf("at the provider: %v after the answer that it is made", left)
	}
}

// A deletion that an operator forgets may be under way, here or at a former leader: what it deletes is no answer until
// its driver has said that it is over.
func TestSnapshotIsNotAnsweredByOneWhoseDeletionWasForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	late := make(chan struct{})
	n.On("Controller.SnapshotDelete", func(ctx context.Context, q any) error {
		<-late // its caller is gone
		return p.call("Controller.SnapshotDelete", func() { delete(p.has, q.(*api.ControllerSnapshotDeleteRequest).ID) })
	})
	deleted := r.deleteLater()
	n.Await(t, "Controller.SnapshotDelete")
	if _, err := r.deleteSnapshot("snap", true); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err == nil {
		t.Error("who asked for the deletion is told that it has ended")
	}
	if n := r.State.Read(); len(ledger.Gather(n, "p", "ext-v").Snapshots) > 0 {
		t.Error("it is in the way of the volume")
	}
	again := r.snapshotLater()
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(tx *state.Txn) bool {
		i := tx.SnapshotIntent("p", "s", false)
		return i != nil && i.LastError != "" || i == nil && len(again) > 0
	}); err != nil {
		t.Fatal(err)
	}
	from := volumestest.Made("w")
	from.SnapshotID = "snap"
	wants(t, r.Create(from), fault.Conflict, "is being deleted", "`nomad volume snapshot delete -force p snap`")
	close(late)
	if err := <-again; err != nil {
		t.Error(err)
	}
	r.noIntents()
	if left := p.list(); len(left) != 1 {
		t.Errorf("at the provider: %v after the answer that it is made", left)
	}
}

// What was forgotten ends with the driver's word, whatever that is, or with the operator's second one.
func TestForgottenDeletionOfASnapshotEnds(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]codes.Code{"refused": codes.FailedPrecondition, "never answered": codes.Unavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			p := provide(n)
			r.Register(volumestest.Spec("v"))
			p.script("Controller.SnapshotDelete", always, codes.Unavailable)
			if _, err := r.deleteSnapshot("snap", false); err == nil {
				t.Fatal("deleted")
			}
			if code != codes.Unavailable {
				p.script("Controller.SnapshotDelete", always, code)
			}
			if _, err := r.deleteSnapshot("snap", true); err != nil {
				t.Fatal(err)
			}
			if code == codes.Unavailable {
				if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(tx *state.Txn) bool {
					i := tx.SnapshotIntent("p", "snap", true)
					return i == nil || i.LastError != ""
				}); err != nil {
					t.Fatal(err)
				}
				_, _ = r.deleteSnapshot("snap", true)
			}
			r.noIntents()
		})
	}
}
