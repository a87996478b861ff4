package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) deleteSnapshot(id string, force bool) (*api.SnapshotDeleteResponse, error) {
	return r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: id, Force: force})
}

// A snapshot whose driver never answers keeps its volume from being deleted until somebody forgets it.
func TestSnapshotThatIsNeverAnsweredIsForgottenByForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := provide(r.Node("n1"))
	p.script("Controller.Snapshot", always, codes.Unavailable)
	r.Register(volumestest.Spec("v"))
	_, err := r.Snapshot("s")
	wants(t, err, fault.Unavailable, "`nomad volume snapshot delete p s`")
	wants(t, r.Delete("v"), fault.Conflict, `snapshot "s"`, "`nomad volume snapshot delete p s` cancels it, with -force at once")
	_, err = r.deleteSnapshot("s", false)
	wants(t, err, fault.Unavailable, "said Unavailable", "`nomad volume snapshot delete -force p s`")
	out, err := r.deleteSnapshot("s", true)
	if err != nil || !strings.Contains(out.Warnings, `Plugin "p" has not reported whether it made snapshot "s" of volume "v"`) {
		t.Errorf("it says %+v, %v", out, err)
	}
	if err := r.Delete("v"); err != nil {
		t.Error(err)
	}
	_, err = r.deleteSnapshot("s", true)
	wants(t, err, fault.NotFound, "nothing is under way")
}

func TestGivenUpSnapshotOfASilentDriverSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, forAnAnswer)
		n := r.Node("n1")
		provide(n)
		n.On("Controller.Snapshot", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
		r.Register(volumestest.Spec("v"))
		asked, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := r.Service.CreateSnapshots(asked, &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: "s"}}}); err == nil {
			t.Fatal("made")
		}
		_, err := r.deleteSnapshot("s", false)
		wants(t, err, fault.Unavailable, "retried until then: no reply yet; `nomad volume snapshot delete -force p s`")
	})
}

func wants(t *testing.T, err error, class fault.Class, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error is %v", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// One that is given up by its name is deleted as soon as its driver has told the id.
func TestSnapshotThatIsGivenUpByItsNameIsDeletedWhenItIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	p := provide(n)
	r.Register(volumestest.Spec("v"))
	p.script("Controller.Snapshot", 0, codes.DeadlineExceeded)
	release := n.Hold("Controller.Snapshot")
	made := make(chan error, 1)
	go func() {
		_, err := r.Snapshot("s")
		made <- err
	}()
	n.Await(t, "Controller.Snapshot")
	_, err := r.deleteSnapshot("s", false)
	wants(t, err, fault.Unavailable, "-force")
	release()
	r.noIntents()
	if left := p.list(); len(left) > 0 {
		t.Errorf("at the provider: %v", left)
	}
	if err := <-made; err == nil {
		t.Error("who asked for it is told that it was made")
	}
}

// Its deletion is waited for, and a snapshot of before that has the name is left and told.
func TestGivenUpSnapshotIsAnsweredWithWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for age, code := range map[time.Duration]codes.Code{0: codes.OK, time.Hour: codes.FailedPrecondition} {
		t.Run(age.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, forAnAnswer)
				n := r.Node("n1")
				p := provide(n)
				n.SnapshotsCut(time.Now().Add(time.Second - age))
				r.Register(volumestest.Spec("v"))
				p.script("Controller.Snapshot", always, codes.Unavailable)
				asked, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if _, err := r.Service.CreateSnapshots(asked, &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: "s"}}}); err == nil {
					t.Fatal("made")
				}
				given := make(chan error, 1)
				go func() {
					_, err := r.deleteSnapshot("s", false)
					given <- err
				}()
				keys := []state.Key{state.TableKey(state.TableSnapshots)}
				if err := state.Until(r.Context(), r.State, keys, func(tx *state.Txn) bool { return tx.SnapshotIntent("p", "s", false).Unwanted }); err != nil {
					t.Fatal(err)
				}
				p.script("Controller.Snapshot", 0)
				err := <-given
				if code == codes.OK && err != nil {
					t.Error(err)
				}
				if code != codes.OK {
					wants(t, err, fault.Conflict, "snapshot snap is kept", "`nomad volume snapshot delete p snap` deletes it")
				}
				r.noIntents()
			})
		})
	}
}

// A call that is under way when its snapshot is given up may still cut it. Who gave it up wants none, and who asked for
// it has been told so.
func TestSnapshotThatIsCutAfterItWasGivenUpIsDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		force, byNameFirst, unready bool
		age                         time.Duration
		left                        int
	}{
		"by its name":                   {},
		"by its name, not ready":        {unready: true},
		"by force":                      {force: true},
		"by force, not ready":           {force: true, unready: true},
		"by its name, then by force":    {byNameFirst: true, force: true},
		"one of before, by its name":    {age: time.Hour, left: 1},
		"one of before that is unready": {unready: true, age: time.Hour, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			p := provide(n)
			r.Register(volumestest.Spec("v"))
			n.SnapshotsCut(time.Now().Add(time.Second - c.age))
			if c.unready {
				n.ReadyAfter(2)
			}
			release := n.Hold("Controller.Snapshot")
			made := r.snapshotLater()
			n.Await(t, "Controller.Snapshot")
			if !c.force || c.byNameFirst {
				_, err := r.deleteSnapshot("s", false)
				wants(t, err, fault.Unavailable, "-force")
			}
			if c.force {
				if _, err := r.deleteSnapshot("s", true); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-made; err == nil {
				t.Error("who asked for it is told that it was made")
			}
			release()
			if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableSnapshots)}, func(*state.Txn) bool {
				return r.Intents() == 0 && (n.Count("Controller.SnapshotDelete") > 0 || c.left > 0)
			}); err != nil {
				t.Fatalf("%v; calls are %v", err, n.Calls())
			}
			if left := p.list(); len(left) != c.left {
				t.Errorf("at the provider: %v", left)
			}
		})
	}
}

// Between the driver's answer and its record an operator forgets the snapshot: it is deleted, and its user gets none.
func TestSnapshotThatIsForgottenBeforeItsAnswerIsRecordedIsNotAnswered(t *testing.T) {
	t.Parallel()
	for _, unready := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, forAnAnswer)
			n := r.Node("n1")
			p := provide(n)
			r.Register(volumestest.Spec("v"))
			if unready {
				n.ReadyAfter(2)
			}
			n.SnapshotsCut(time.Now().Add(time.Second))
			r.Proposing = func(c fsm.Command) {
				if a, is := c.(*commands.SnapshotAnswer); is && a.Made {
					if _, err := r.deleteSnapshot("s", true); err != nil {
						t.Error(err)
					}
					synctest.Wait() // its user has seen that
				}
			}
			_, err := r.Snapshot("s")
			wants(t, err, fault.Unavailable, "list the snapshots")
			synctest.Wait() // it is undone
			r.noIntents()
			if left := p.list(); len(left) > 0 {
				t.Errorf("at the provider: %v", left)
			}
		})
	}
}
