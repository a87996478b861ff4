package reconciler_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A snapshot that is still followed until it is ready is not made again when its user deletes it.
func TestDeletedSnapshotIsNotFollowedAnyMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.Patience = time.Second })
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	n.ReadyAfter(1 << 30)
	if out, err := r.Snapshot("s"); err != nil || out.Snapshots[0].IsReady {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p"}); err != nil {
		t.Fatal(err)
	}
	r.noIntents()
	if left := p.list(); len(left) > 0 {
		t.Errorf("at the provider: %v", left)
	}
}

// One that is being deleted as unwanted is not answered as made to who asks for it meanwhile.
func TestSnapshotIsNotDeletedAfterItWasAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	release := n.Hold("Controller.SnapshotDelete")
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.PermissionDenied)
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("made")
	}
	n.Await(t, "Controller.SnapshotDelete")
	again := make(chan error, 1)
	go func() {
		_, err := r.Snapshot("s")
		again <- err
	}()
	// It waits for the deletion, or was answered already.
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(tx *state.Txn) bool {
		i := tx.SnapshotIntent("p", "s", false)
		return tx.SnapshotIntent("p", "snap", true) == nil || i != nil && i.LastError != "" || i == nil && len(again) > 0
	}); err != nil {
		t.Fatal(err)
	}
	release()
	err := <-again
	r.noIntents()
	if left := p.list(); err == nil && len(left) != 1 {
		t.Errorf("at the provider: %v after the answer that it is made", left)
	}
}

// A deletion that nobody asked for, and that its driver refuses, is ended by a user who brings other secrets.
func TestUnwantedSnapshotIsDeletedWithOtherSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	n.On("Controller.SnapshotDelete", func(_ context.Context, q any) error {
		if q.(*api.ControllerSnapshotDeleteRequest).Secrets["key"] != "right" {
			return volumestest.Says("Controller.SnapshotDelete", codes.Unauthenticated, "who are you")
		}
		return p.call("Controller.SnapshotDelete", func() { delete(p.has, "snap") })
	})
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.InvalidArgument)
	if _, err := r.Snapshot("s"); err == nil {
		t.Fatal("made")
	}
	n.Await(t, "Controller.SnapshotDelete")
	q := &api.SnapshotDeleteRequest{ID: "snap", PluginID: "p", Secrets: map[string]string{"key": "right"}}
	if _, err := r.Service.DeleteSnapshot(r.Context(), q); err != nil {
		t.Error(err)
	}
	r.noIntents()
	if left := p.list(); len(left) > 0 {
		t.Errorf("at the provider: %v", left)
	}
}

// A snapshot that nobody wants may outlive its volume, which had the secrets that its driver asks for.
func TestUnwantedSnapshotIsDeletedWithTheSecretsOfAVolumeThatIsGone(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*rig) error{
		"deleted": func(r *rig) error { return r.Delete("v") },
		"deregistered": func(r *rig) error {
			_, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			n := r.Node("n1")
			p := provide(n)
			v := volumestest.Spec("v")
			v.Secrets = map[string]string{"key": "value"}
			r.Register(v)
			refuse := make(chan struct{})
			n.On("Controller.SnapshotDelete", func(_ context.Context, q any) error {
				select {
				case <-refuse:
				default:
					return volumestest.Says("Controller.SnapshotDelete", codes.Unavailable, "later")
				}
				if q.(*api.ControllerSnapshotDeleteRequest).Secrets["key"] != "value" {
					return volumestest.Says("Controller.SnapshotDelete", codes.Unauthenticated, "who are you")
				}
				return p.call("Controller.SnapshotDelete", func() { delete(p.has, "snap") })
			})
			p.script("Controller.Snapshot", 0, codes.DeadlineExceeded, codes.InvalidArgument)
			if _, err := r.Snapshot("s"); err == nil {
				t.Fatal("made")
			}
			n.Await(t, "Controller.SnapshotDelete")
			if err := forget(r); err != nil {
				t.Fatal(err)
			}
			close(refuse)
			r.noIntents()
			if left := p.list(); len(left) > 0 {
				t.Errorf("at the provider: %v", left)
			}
		})
	}
}
