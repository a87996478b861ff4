package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// book is a store that changes as raft entries change it.
type book struct {
	t     *testing.T
	state *state.Store
}

func newBook(t *testing.T) *book {
	s := state.New()
	b := &book{t, s}
	b.must(func(tx *state.Txn) error {
		tx.PutClusterID("of the test")
		for _, id := range []string{"n1", "n2"} {
			tx.PutNode(&api.Node{
				ID: id, Status: api.NodeStatusReady,
				CSINodePlugins: map[string]*api.CSIInfo{"p": {Healthy: true, RequiresControllerPlugin: true, NodeInfo: &api.CSINodeInfo{ID: "provider-" + id}}},
			})
		}
		tx.PutVolume(&api.Volume{
			VolumeSpec: api.VolumeSpec{
				ID: "v", Namespace: "default", PluginID: "p", Secrets: map[string]string{"k": "s"},
				RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
			},
			Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"},
		})
		return nil
	})
	return b
}

func (b *book) do(fn func(*state.Txn) error) error {
	index := b.state.Read().Index() + 1
	tx := b.state.Write(index, time.Unix(1000, int64(index)))
	if err := fn(tx); err != nil {
		tx.Abort()
		return err
	}
	tx.Commit()
	return nil
}

func (b *book) must(fn func(*state.Txn) error) {
	b.t.Helper()
	if err := b.do(fn); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) refused(class fault.Class, fn func(*state.Txn) error) {
	b.t.Helper()
	before := b.state.Read().TableIndex(state.TableClaims, state.TableAttachments)
	if err := b.do(fn); !errors.Is(err, class) {
		b.t.Fatalf("error is %v, not %v", err, class)
	}
	if b.state.Read().TableIndex(state.TableClaims, state.TableAttachments) != before {
		b.t.Fatal("a refused report changed rows")
	}
}

func (b *book) attachment() *api.VolumeAttachment {
	b.t.Helper()
	a := b.state.Read().Attachment("p", "x", "n1")
	if a == nil {
		b.t.Fatal("there is no attachment")
	}
	return a
}

func hold(volume, alloc, node string) ledger.Hold {
	return ledger.Hold{Namespace: "default", VolumeID: volume, AllocID: alloc, NodeID: node}
}

func taker(id, node string) *api.Allocation {
	g := &api.TaskGroup{Name: "g", Volumes: map[string]*api.VolumeRequest{"v": {Type: api.VolumeTypeCSI, Source: "v"}}}
	return &api.Allocation{
		ID: id, Namespace: "default", NodeID: node, JobID: "j", TaskGroup: "g", DesiredStatus: api.AllocDesiredStatusRun,
		Job: &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{g}},
	}
}

func take(a *api.Allocation) func(*state.Txn) error {
	return func(tx *state.Txn) error { tx.PutAlloc(a); return ledger.Take(tx, a, nil) }
}

// attaches has a node tell of a controller that attaches volumes.
func (b *book) attaches(healthy bool) {
	b.t.Helper()
	b.must(func(tx *state.Txn) error {
		n := *tx.Node("n2")
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {Healthy: healthy, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true}}}
		tx.PutNode(&n)
		return nil
	})
}

func TestIntentHoldsWhatTheDriverNeeds(t *testing.T) {
	b := newBook(t)
	b.attaches(true)
	b.must(take(taker("a1", "n1")))
	a := b.attachment()
	if a.State != api.AttachmentPublishing || a.ProviderNodeID != "provider-n1" || a.Secrets != nil || a.Fence != b.state.Read().Index() {
		t.Fatalf("intent is %+v", a)
	}
}

// While nobody says that the plugin attaches, no call is made without another entry.
func TestIntentWithoutAHealthyControllerIsNotYetCalled(t *testing.T) {
	b := newBook(t)
	b.attaches(false)
	b.must(take(taker("a1", "n1")))
	if a := b.attachment(); a.State != api.AttachmentPublishing || a.ProviderNodeID != "" {
		t.Fatalf("intent is %+v", a)
	}
	i := ledger.IntentOf(b.attachment())
	b.attaches(true)
	b.must(func(tx *state.Txn) error { return ledger.Prepare(tx, i) })
	if a := b.attachment(); a.ProviderNodeID != "provider-n1" || a.Fence != i.Fence {
		t.Fatalf("prepared, it is %+v", a)
	}
}

func TestAnswersToOldIntentsAreRefused(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	old := ledger.IntentOf(b.attachment())
	ended := taker("a1", "n1")
	ended.ClientStatus = api.AllocClientStatusFailed
	b.must(func(tx *state.Txn) error { return ledger.AllocChanged(tx, ended) })
	if s := b.attachment().State; s != api.AttachmentUnpublishing {
		t.Fatalf("attachment is %q", s)
	}
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.PublishDone(tx, old, nil) })
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.UnpublishDone(tx, old) })
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.CallFailed(tx, old, "late", 0, 1) })
	now := ledger.IntentOf(b.attachment())
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.PublishDone(tx, now, nil) })
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, now) })
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.UnpublishDone(tx, now) })
}

func TestDoubledAndForeignReportsAreRefused(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	released := func(node string) func(*state.Txn) error {
		return func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", node)) }
	}
	b.refused(fault.Denied, released("n2"))
	b.must(released("n1"))
	b.refused(fault.Conflict, released("n1"))
	b.refused(fault.Conflict, func(tx *state.Txn) error {
		return ledger.ReleaseFailed(tx, hold("v", "a1", "n1"), "too late", 0)
	})
	b.refused(fault.NotFound, func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a9", "n1")) })
	if p := b.attachment().Proof; p != ledger.ProofReleased {
		t.Fatalf("proof is %q", p)
	}
}

func TestAllOrNothingIsTaken(t *testing.T) {
	b := newBook(t)
	a := taker("a1", "n1")
	a.Job.TaskGroups[0].Volumes["w"] = &api.VolumeRequest{Type: api.VolumeTypeCSI, Source: "w"}
	b.refused(fault.NotFound, take(a))
	if err := ledger.Check(b.state.Read(), a, nil); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestNodeWithoutThePluginIsRefused(t *testing.T) {
	b := newBook(t)
	b.refused(fault.Conflict, take(taker("a1", "n3")))
}

func TestForgottenClaimsFollow(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { tx.DeleteAlloc("a1"); return nil })
	reconcile := func(tx *state.Txn) error {
		return ledger.Reconcile(tx, []*api.VolumeClaim{tx.Claim("default", "v", "a1", "")})
	}
	b.must(reconcile)
	if c := b.state.Read().Claim("default", "v", "a1", ""); c.State != api.ClaimUnmounted {
		t.Fatalf("claim is %q", c.State)
	}
	before := b.state.Read().TableIndex(state.TableClaims, state.TableAttachments)
	b.must(reconcile)
	if b.state.Read().TableIndex(state.TableClaims, state.TableAttachments) != before {
		t.Fatal("a second look changed rows")
	}
}

func TestMountThatWaitsIsNotedUntilItGoesOn(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	waits := func(node, reason string, next int64) func(*state.Txn) error {
		return func(tx *state.Txn) error { return ledger.MountWaits(tx, hold("v", "a1", node), reason, next) }
	}
	b.refused(fault.Conflict, waits("n1", "not ready yet", 1))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.refused(fault.Denied, waits("n2", "not mine", 1))
	b.must(waits("n1", "stage: busy", 7))
	if c := b.state.Read().Claim("default", "v", "a1", ""); c.State != api.ClaimReady || c.LastError != "stage: busy" || c.NextRetry != 7 {
		t.Fatalf("claim is %+v", c)
	}
	b.must(waits("n1", "", 0))
	if c := b.state.Read().Claim("default", "v", "a1", ""); c.State != api.ClaimReady || c.LastError != "" || c.NextRetry != 0 {
		t.Fatalf("claim is %+v", c)
	}
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", "n1")) })
	b.refused(fault.Conflict, waits("n1", "too late", 1))
}
