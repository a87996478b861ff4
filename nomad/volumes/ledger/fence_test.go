package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// controller puts a controller of the plugin on a node.
func (b *book) controller(node string, healthy, attaches bool) {
	b.must(func(tx *state.Txn) error {
		n := *tx.Node(node)
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {Healthy: healthy, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: attaches}}}
		tx.PutNode(&n)
		return nil
	})
}

func (b *book) fence(fence string) {
	b.must(func(tx *state.Txn) error {
		v := *tx.Volume("default", "v")
		v.Fence, v.WriteBack = fence, 7*time.Second
		tx.PutVolume(&v)
		return nil
	})
}

func TestFenceOfAClaimIsDecidedWhenItIsTaken(t *testing.T) {
	attaches := func(b *book) { b.controller("n2", true, true) }
	never := func(b *book) { b.controller("n2", true, false) }
	unknown := func(*book) {}
	for _, c := range []struct {
		name, fence   string
		plugin        func(*book)
		attach, lease bool
	}{
		{"storage by default", "", attaches, true, false},
		{"storage", api.FenceStorage, attaches, true, false},
		{"a lease beside the attach", api.FenceLease, attaches, true, true},
		{"both", api.FenceBoth, attaches, true, true},
		{"lease by default", "", never, false, true},
		{"lease", api.FenceLease, never, false, true},
		{"not known yet", "", unknown, true, true},
		{"the word of an unhealthy controller is no fence", "", func(b *book) { b.controller("n1", false, true); never(b) }, true, true},
		{"the node's attachment was never made", "", func(b *book) {
			attaches(b)
			b.must(func(tx *state.Txn) error {
				tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentPublished, NotCalled: true})
				return nil
			})
		}, true, true},
		{"a healthy one is enough", "", func(b *book) { b.controller("n1", true, false); attaches(b) }, true, false},
	} {
		b := newBook(t)
		c.plugin(b)
		b.fence(c.fence)
		b.must(take(taker("a1", "n1")))
		got := b.state.Read().Claim("default", "v", "a1", "")
		if got.Attach != c.attach || (got.Lease > 0) != c.lease || c.lease && (got.Lease != ledger.LeaseDefault || got.WriteBack != 7*time.Second) {
			t.Errorf("%s: attach %v, lease %v, write-back %v", c.name, got.Attach, got.Lease, got.WriteBack)
		}
		if !got.Attach && got.Lease == 0 {
			t.Errorf("%s: nothing keeps a lost node from writing", c.name)
		}
	}
}

func TestClaimHasTimeToWriteBackByWhatWasMeasured(t *testing.T) {
	b := newBook(t)
	b.controller("n2", true, false)
	take1 := func(alloc string) time.Duration {
		b.must(take(taker(alloc, "n1")))
		c := b.state.Read().Claim("default", "v", alloc, "")
		b.must(func(tx *state.Txn) error {
			return ledger.Evict(tx, hold("v", alloc, "n1"), ledger.ProofReleased, ledger.ByNode)
		})
		return c.WriteBack
	}
	if got, want := take1("a1"), api.WriteBackOf(ledger.LeaseDefault, 0); got != want {
		t.Errorf("nothing was measured: %s, want %s", got, want)
	}
	const slow = 50 * time.Second
	b.must(func(tx *state.Txn) error {
		ledger.Measured(tx, "default", "v", slow)
		ledger.Measured(tx, "default", "v", time.Second) // a quick one
		ledger.Measured(tx, "default", "gone", time.Hour)
		return nil
	})
	if got, want := take1("a2"), api.WriteBackOf(ledger.LeaseDefault, slow); got != want || want <= slow {
		t.Errorf("%s were measured: %s, want %s", slow, got, want)
	}
}

func TestClaimBesideAnAttachmentIsAttachedWhateverThePluginSaysNow(t *testing.T) {
	b := newBook(t)
	b.shared()
	b.controller("n2", true, true)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", "n1")) })
	if s := b.attachment().State; s != api.AttachmentUnpublishing {
		t.Fatalf("the attachment is %s", s)
	}
	b.controller("n2", true, false)
	b.must(take(taker("a2", "n1")))
	if c := b.state.Read().Claim("default", "v", "a2", ""); !c.Attach || c.State != api.ClaimTaken {
		t.Errorf("the claim is %s while its node is being detached", c.State)
	}
}

func TestStorageFenceIsNotPromisedByAPluginThatHasNone(t *testing.T) {
	for name, plugin := range map[string]func(*book){
		"it never attaches": func(b *book) { b.controller("n1", true, false) },
		"it has not said":   func(*book) {},
	} {
		b := newBook(t)
		plugin(b)
		b.fence(api.FenceStorage)
		b.refused(fault.Conflict, take(taker("a1", "n1")))
		if err := ledger.Check(b.state.Read(), taker("a1", "n1"), nil); !strings.Contains(err.Error(), `fence = "storage"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSharedUseOfAVolumeThatMayBeExclusiveNeedsAFence(t *testing.T) {
	exclusive := []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}}
	for name, other := range map[string]func(*api.Volume, *state.Txn){
		"by another capability": func(v *api.Volume, _ *state.Txn) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, exclusive...)
		},
		"as a block device": func(v *api.Volume, _ *state.Txn) {
			v.RequestedCapabilities = append(v.RequestedCapabilities, &api.VolumeCapability{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentBlock})
		},
		"by another spec": func(v *api.Volume, tx *state.Txn) {
			o := *v
			o.ID, o.RequestedCapabilities = "other", exclusive
			tx.PutVolume(&o)
		},
	} {
		b := newBook(t)
		b.shared()
		b.controller("n1", true, false)
		b.must(func(tx *state.Txn) error {
			v := *tx.Volume("default", "v")
			other(&v, tx)
			tx.PutVolume(&v)
			return nil
		})
		b.must(take(taker("a1", "n1")))
		if c := b.state.Read().Claim("default", "v", "a1", ""); c.AccessMode != api.AccessMultiNodeMultiWriter || c.Lease != ledger.LeaseDefault {
			t.Errorf("%s: %s, lease %v", name, c.AccessMode, c.Lease)
		}
	}
}

func TestSharedVolumesNeedNoFence(t *testing.T) {
	b := newBook(t)
	b.shared()
	b.controller("n1", true, false)
	b.must(take(taker("a1", "n1")))
	if c := b.state.Read().Claim("default", "v", "a1", ""); c.Lease != 0 {
		t.Errorf("lease is %v", c.Lease)
	}
}

func TestFenceThatThePluginDoesNotHaveIsRefused(t *testing.T) {
	b := newBook(t)
	spec := func(fence string) *api.VolumeSpec { return &api.VolumeSpec{ID: "v", PluginID: "p", Fence: fence} }
	check := func(fence string) error { return ledger.FenceError(b.state.Read(), spec(fence)) }
	for _, f := range []string{"", api.FenceStorage, api.FenceLease, api.FenceBoth} {
		if err := check(f); err != nil {
			t.Errorf("no controller has said: %q: %v", f, err)
		}
	}
	b.controller("n1", true, false)
	for _, f := range []string{api.FenceStorage, api.FenceBoth} {
		if err := check(f); fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), f) {
			t.Errorf("%q: %v", f, err)
		}
	}
	if err := check("magic"); fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "storage, lease, both") {
		t.Errorf("error is %v", err)
	}
}
