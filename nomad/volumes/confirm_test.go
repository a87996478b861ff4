package volumes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func (r *rig) confirm(external string, fence uint64) error {
	_, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
		NodeID: "n1", NodeSecret: "secret-n1", PluginID: "p", ExternalID: external, Fence: fence,
	})
	return err
}

func TestOnlyTheNewestIntentIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	for _, method := range []string{"Controller.Publish", "Controller.Unpublish", "Controller.Create", "Controller.Snapshot"} {
		n.Says(method, codes.Unavailable, "later")
	}
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	publish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if err := r.confirm("ext-v", publish); err != nil {
		t.Errorf("the intent to attach: %v", err)
	}
	r.Ends("a1", api.AllocClientStatusFailed)
	unpublish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if err := r.confirm("ext-v", publish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the attach that is undone: %v", err)
	}
	if err := r.confirm("ext-v", unpublish); err != nil {
		t.Errorf("the intent to detach: %v", err)
	}
	if err := r.confirm("ext-w", unpublish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the same of another volume: %v", err)
	}
	n.On("Controller.Unpublish", nil)
	r.Free("v")
	if err := r.confirm("ext-v", unpublish); !errors.Is(err, fault.Conflict) {
		t.Errorf("the detach that was answered: %v", err)
	}
	_ = r.Create(volumestest.Made("new"))
	if err := r.confirm("", r.State.Read().Volume("default", "new").Provision.Intent); err != nil {
		t.Errorf("the intent to create: %v", err)
	}
	_, _ = r.Snapshot("s")
	if err := r.confirm("ext-v", r.State.Read().SnapshotIntent("p", "s", false).CreateIndex); err != nil {
		t.Errorf("the intent of a snapshot: %v", err)
	}
}

// replaced is the log of a server that has not noticed yet that another one leads.
type replaced struct{ fsm.Leader }

func (replaced) VerifyLeader(context.Context) error { return fault.New(fault.NotLeader, "deposed") }

func TestIntentIsConfirmedByTheLeader(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1").Says("Controller.Publish", codes.Unavailable, "later")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	fence := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	deposed := volumes.New(volumes.Config{State: r.State, Raft: replaced{r.Raft}})
	if _, err := deposed.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
		NodeID: "n1", NodeSecret: "secret-n1", PluginID: "p", ExternalID: "ext-v", Fence: fence,
	}); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a leader that was deposed: %v", err)
	}
}

// A host may begin its call as long as its confirmation is good, whatever became of the answer.
func TestIntentsOfAnObjectAreConfirmedToOneHostAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, id := range []string{"n1", "n2"} {
			r.Node(id).Says("Controller.Publish", codes.Unavailable, "later")
		}
		if err := r.confirm("nothing", 1); !errors.Is(err, fault.Conflict) { // it waits until the term has begun
			t.Error("an intent of nothing was confirmed")
		}
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		publish := r.State.Read().Attachment("p", "ext-v", "n1").Fence
		ask := func(node string) time.Duration {
			t.Helper()
			begin := time.Now()
			if _, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
				NodeID: node, NodeSecret: "secret-" + node, PluginID: "p", ExternalID: "ext-v", Fence: publish,
			}); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		asked := time.Now()
		for range 2 {
			if took := ask("n1"); took > api.ConfirmTerm/2 {
				t.Errorf("a new object took %s", took)
			}
		}
		if ask("n2"); time.Since(asked) < api.ConfirmTerm {
			t.Errorf("another host was told to go on after %s", time.Since(asked))
		}
		r.Halt()
		r.Start() // what the leader of before confirmed is not known
		asked = time.Now()
		if ask("n2"); time.Since(asked) < api.ConfirmTerm*9/10 {
			t.Errorf("a new leader confirmed after %s", time.Since(asked))
		}
	})
}

// The name of a creation is its driver's key, whichever intent asks by it.
func TestIntentsOfACreationAreConfirmedToOneHostAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, id := range []string{"n1", "n2"} {
			r.Node(id).Says("Controller.Create", codes.Unavailable, "later")
		}
		ask := func(node string) error {
			_, err := r.Service.ConfirmIntent(r.Context(), &api.VolumeIntentRequest{
				NodeID: node, NodeSecret: "secret-" + node, PluginID: "p", Fence: r.State.Read().Volume("default", "v").Provision.Intent,
			})
			return err
		}
		spec := volumestest.Made("v")
		_ = r.Create(spec)
		first := r.State.Read().Volume("default", "v").Provision.Intent
		asked := time.Now()
		if err := ask("n1"); err != nil {
			t.Fatal(err)
		}
		spec.Secrets = map[string]string{"key": "other"}
		_ = r.Create(spec)
		if r.State.Read().Volume("default", "v").Provision.Intent == first {
			t.Fatal("other secrets are no new intent")
		}
		if err := ask("n2"); err != nil || time.Since(asked) < api.ConfirmTerm {
			t.Errorf("another host was told to go on after %s: %v", time.Since(asked), err)
		}
	})
}

// One entry may intend several calls: an intent that was answered is not confirmed because another one of its index is
// open.
func TestIntentIsConfirmedForItsOwnCallOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Halt()
	r.Register(volumestest.Spec("v"))
	s := volumes.New(volumes.Config{State: r.State, Raft: r.Raft})
	go func() { _ = s.Run(t.Context()) }()
	confirmed := func(q api.VolumeIntentRequest) bool {
		q.NodeID, q.NodeSecret, q.PluginID = "n1", "secret-n1", "p"
		_, err := s.ConfirmIntent(r.Context(), &q)
		if err != nil && !errors.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
		return err == nil
	}
	if confirmed(api.VolumeIntentRequest{Fence: 1}) { // it waits until the term has begun
		t.Error("an intent of nothing was confirmed")
	}
	var fence uint64
	r.Edit(func(tx *state.Txn) {
		fence = tx.Index()
		for node, s := range map[string]api.AttachmentState{"n2": api.AttachmentPublishing, "n3": api.AttachmentUnpublishing, "n4": api.AttachmentPublished} {
			tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: node, ProviderNodeID: "i-" + node, State: s, Fence: fence})
		}
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", ExternalID: "ext-v", Name: "s"})
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "id", Delete: true})
		for id, p := range map[string]api.VolumeProvision{
			"made": {State: api.VolumeCreating}, "gone": {State: api.VolumeDeleting, ExternalID: "ext-gone"}, "grown": {State: api.VolumeExpanding, ExternalID: "ext-grown"},
		} {
			p.Intent = fence
			tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "default", ID: id, Name: "name-" + id, PluginID: "p"}, Provision: p})
		}
	})
	open := map[api.VolumeIntentRequest]bool{
		{ExternalID: "ext-v", Call: api.CallAttach, Part: "i-n2"}: true,
		{ExternalID: "ext-v", Call: api.CallDetach, Part: "i-n3"}: true,
		{ExternalID: "ext-v", Call: api.CallSnapshot, Part: "s"}:  true,
		{Call: api.CallSnapshotDelete, Part: "id"}:                true,
		{Call: api.CallCreate, Part: "name-made"}:                 true,
		{ExternalID: "ext-gone", Call: api.CallDelete}:            true,
		{ExternalID: "ext-grown", Call: api.CallExpand}:           true,
	}
	for _, external := range []string{"", "ext-v", "ext-gone", "ext-grown", "ext-w"} {
		for _, call := range []api.IntentCall{"", api.CallAttach, api.CallDetach, api.CallSnapshot, api.CallSnapshotDelete, api.CallCreate, api.CallDelete, api.CallExpand} {
			for _, part := range []string{"", "i-n2", "i-n3", "i-n4", "s", "id", "name-made", "name-gone"} {
				q := api.VolumeIntentRequest{ExternalID: external, Call: call, Part: part}
				want := open[q] || call == "" && external != "ext-w" // a host of before says no more
				q.Fence = fence
				if confirmed(q) != want {
					t.Errorf("%q of %q for %q: confirmed is %v", call, external, part, !want)
				}
			}
		}
	}
}

// After an operator's word the calls of before it that have not begun are refused, whichever leader asked for them.
func TestCallsOfBeforeAnOperatorsWordAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	n.Says("Controller.Publish", codes.Unavailable, "later")
	n.Says("Controller.Unpublish", codes.Unavailable, "later")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	attach := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	r.Ends("a1", api.AllocClientStatusComplete)
	detach := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
		t.Fatal(err)
	}
	left := r.State.Read().WrittenOffTo("p", "ext-v", "n1").Fence
	for fence, ok := range map[uint64]bool{attach: false, detach: false, left: true} {
		if err := r.confirm("ext-v", fence); ok != (err == nil) || !ok && !errors.Is(err, fault.Conflict) {
			t.Errorf("intent %d of %d, %d and %d: %v", fence, attach, detach, left, err)
		}
	}
}
