package reconciler_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
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
