package keyring_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// given changes the state without a command.
func (w *world) given(put func(tx *state.Txn)) {
	tx := w.state.Write(w.state.Read().Index()+1, time.Now())
	put(tx)
	tx.Commit()
}

// states are the states of the keys as users see them, the oldest key first.
func states(t *testing.T, k *keyring.Service) (all []api.RootKeyState) {
	t.Helper()
	out, err := k.List(t.Context(), &api.QueryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range out.Keys {
		all = append(all, key.State)
	}
	return all
}

func expect(t *testing.T, when string, k *keyring.Service, want ...api.RootKeyState) {
	t.Helper()
	synctest.Wait()
	got := states(t, k)
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", when, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: %v, want %v", when, got, want)
		}
	}
}

func TestPrepublishedKeysBecomeActiveAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.server("a", "")
		defer w.run(a.Lead)()
		stop := w.run(a.Schedule)
		first := w.active()
		out, err := a.Rotate(t.Context(), &api.RootKeyRotateRequest{PublishTime: time.Now().Add(time.Minute).UnixNano()})
		if err != nil || out.Key.State != api.RootKeyPrepublished {
			t.Fatalf("%+v %v", out, err)
		}
		expect(t, "before its time", a, api.RootKeyActive, api.RootKeyPrepublished)
		if public, err := a.Public(t.Context(), &api.QueryOptions{}); err != nil || len(public.Keys) != 4 {
			t.Errorf("the new key is not published: %+v %v", public, err)
		}
		if w.active() != first {
			t.Error("it is active before its time")
		}
		stop() // another leader continues
		time.Sleep(2 * time.Minute)
		defer w.run(a.Schedule)()
		expect(t, "at its time", a, api.RootKeyInactive, api.RootKeyActive)
		if k := w.state.Read().ActiveRootKey(); k.KeyID != out.Key.KeyID || k.PublishTime != 0 {
			t.Errorf("active is %+v", k.RootKeyMeta)
		}
	})
}

func TestOldKeysAreReplacedAndUnusedOnesDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.server("a", "")
		defer w.run(a.Lead)()
		defer w.run(a.Schedule)()
		first := w.active()
		alloc := &api.Allocation{ID: "a1", Namespace: "default", ClientStatus: "running", CreateTime: time.Now().UnixNano()}
		w.given(func(tx *state.Txn) { tx.PutAlloc(alloc) })
		time.Sleep(359 * time.Hour)
		expect(t, "before half of the age", a, api.RootKeyActive)
		time.Sleep(2 * time.Hour)
		expect(t, "at half of the age", a, api.RootKeyActive, api.RootKeyPrepublished)
		time.Sleep(358 * time.Hour)
		expect(t, "before the age", a, api.RootKeyActive, api.RootKeyPrepublished)
		time.Sleep(2 * time.Hour)
		expect(t, "at the age", a, api.RootKeyInactive, api.RootKeyActive)
		time.Sleep(2 * time.Hour)
		expect(t, "while an allocation runs that began with the old key", a, api.RootKeyInactive, api.RootKeyActive)
		ended := *alloc
		ended.ClientStatus = "complete"
		w.given(func(tx *state.Txn) { tx.PutAlloc(&ended) })
		time.Sleep(time.Hour)
		expect(t, "when nothing uses the old key", a, api.RootKeyActive)
		if w.state.Read().RootKey(first) != nil {
			t.Error("the other key was deleted")
		}
	})
}

func TestKeysInUseAreNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.server("a", "")
	w.run(a.Lead)
	first := w.active()
	w.given(func(tx *state.Txn) {
		tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "default", Path: "p"}, KeyID: first})
		tx.PutNode(&api.Node{ID: "n1", IdentitySigningKeyID: first})
		tx.PutAlloc(&api.Allocation{ID: "a1", Namespace: "default", CreateTime: 1})
		tx.PutAlloc(&api.Allocation{ID: "a2", Namespace: "default", CreateTime: time.Now().Add(time.Hour).UnixNano()})
		tx.PutAlloc(&api.Allocation{ID: "a3", Namespace: "default", CreateTime: 1, ClientStatus: "failed"})
	})
	if _, err := a.Rotate(t.Context(), &api.RootKeyRotateRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := states(t, a); got[0] != api.RootKeyRekeying {
		t.Errorf("while a variable is encrypted with it: %v", got)
	}
	_, err := a.Delete(t.Context(), &api.RootKeyDeleteRequest{KeyID: first})
	for _, why := range []string{"1 variables", "1 nodes", "1 allocations", "force"} {
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	if err := a.Collect(t.Context(), true); err != nil || w.state.Read().RootKey(first) == nil {
		t.Errorf("a key in use was collected: %v", err)
	}
	w.given(func(tx *state.Txn) { tx.DeleteVariable("default", "p") })
	if got := states(t, a); got[0] != api.RootKeyInactive {
		t.Errorf("when no variable is encrypted with it: %v", got)
	}
	if _, err := a.Delete(t.Context(), &api.RootKeyDeleteRequest{KeyID: first, Force: true}); err != nil {
		t.Error(err)
	}
}

// A node may have received an identity that no heartbeat has shown to the servers yet. Without its key the node is locked out,
// because the key of the former identity, which the node does not have any more, still binds it.
func TestKeysOfIdentitiesThatWereNotUsedYetStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.server("a", "")
	w.run(a.Lead)
	first := w.active()
	w.given(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", IdentitySigningKeyID: first})
		tx.PutNode(&api.Node{ID: "n2"})
	})
	rotate := func() string {
		t.Helper()
		out, err := a.Rotate(t.Context(), &api.RootKeyRotateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Key.KeyID
	}
	second := rotate()
	rotate()
	if err := a.Collect(t.Context(), true); err != nil || w.state.Read().RootKey(second) == nil {
		t.Fatalf("the key of the next identity was collected: %v", err)
	}
	w.given(func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1", IdentitySigningKeyID: second}) })
	if err := a.Collect(t.Context(), true); err != nil || w.state.Read().RootKey(first) != nil || w.state.Read().RootKey(second) == nil {
		t.Errorf("the keys when the node uses the next identity: %v", err)
	}
}
