package ledger_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// change changes the secrets of the volume "v" as a new spec does.
func (b *book) change(key string) {
	b.t.Helper()
	b.must(func(tx *state.Txn) error {
		old := tx.Volume("default", "v")
		next := *old
		next.Secrets = map[string]string{"k": key}
		ledger.KeepFormer(tx, old, &next)
		tx.PutVolume(&next)
		return nil
	})
}

func (b *book) secrets() (keys []string) {
	for _, set := range ledger.Secrets(b.state.Read(), b.attachment()) {
		keys = append(keys, set["k"])
	}
	return keys
}

func TestSecretsOfAnAttachmentAreThoseOfItsVolumeNow(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.change("rotated")
	if got := b.secrets(); !slices.Equal(got, []string{"rotated", "s"}) {
		t.Errorf("the driver is called with %q", got)
	}
	if b.attachment().Secrets != nil {
		t.Error("the attachment holds secrets")
	}
}

func TestFormerSecretsGoWithTheLastAttachment(t *testing.T) {
	b := newBook(t)
	b.change("before anybody used it")
	if former := b.state.Read().Volume("default", "v").Provision.FormerSecrets; former != nil {
		t.Errorf("former secrets %v are kept for nobody", former)
	}
	b.must(take(taker("a1", "n1")))
	b.change("rotated")
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", "n1")) })
	if former := b.state.Read().Volume("default", "v").Provision.FormerSecrets; former == nil {
		t.Error("former secrets are gone while the volume is attached")
	}
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(b.attachment())) })
	if former := b.state.Read().Volume("default", "v").Provision.FormerSecrets; former != nil {
		t.Errorf("former secrets are still %v", former)
	}
}

func TestLastSpecLeavesItsSecretsToItsAttachments(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.change("rotated")
	forget := func(id string) {
		b.must(func(tx *state.Txn) error {
			ledger.Orphan(tx, tx.Volume("default", id))
			tx.DeleteVolume("default", id)
			return nil
		})
	}
	b.must(func(tx *state.Txn) error {
		w := *tx.Volume("default", "v")
		w.ID = "w"
		tx.PutVolume(&w)
		return nil
	})
	forget("w")
	if b.attachment().Secrets != nil {
		t.Error("the attachment holds secrets that a spec has")
	}
	forget("v")
	if got := b.secrets(); !slices.Equal(got, []string{"rotated"}) {
		t.Fatalf("the driver is called with %q", got)
	}
	b.must(func(tx *state.Txn) error {
		v := &api.Volume{
			VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p", Secrets: map[string]string{"k": "new"}},
			Provision:  api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"},
		}
		ledger.Adopt(tx, v)
		tx.PutVolume(v)
		return nil
	})
	if got := b.secrets(); b.attachment().Secrets != nil || !slices.Equal(got, []string{"new", "rotated"}) {
		t.Errorf("the driver is called with %q, the attachment holds %v", got, b.attachment().Secrets)
	}
}

// A restore has left the attachment what the state before knew to detach it with.
func TestLastSpecTakesNoSecretsFromItsAttachments(t *testing.T) {
	for _, spec := range []map[string]string{nil, {"k": "of the older state"}} {
		b := newBook(t)
		b.must(take(taker("a1", "n1")))
		b.must(func(tx *state.Txn) error {
			a := *b.attachment()
			a.Secrets = map[string]string{"k": "left"}
			tx.PutAttachment(&a)
			v := *tx.Volume("default", "v")
			v.Secrets = spec
			ledger.Orphan(tx, &v)
			tx.DeleteVolume("default", "v")
			return nil
		})
		if got := b.secrets(); !slices.Equal(got, []string{"left"}) {
			t.Errorf("the driver is called with %q", got)
		}
	}
}

func TestSecretsOfOlderAttachmentsStillServe(t *testing.T) {
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		tx.DeleteVolume("default", "v")
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", Secrets: map[string]string{"k": "recorded"}})
		return nil
	})
	if got := ledger.Secrets(b.state.Read(), b.attachment()); len(got) != 1 || !maps.Equal(got[0], map[string]string{"k": "recorded"}) {
		t.Errorf("the driver is called with %v", got)
	}
}
