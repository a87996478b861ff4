package keyring_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(keyring.Commands) }

// world is one log that several servers share, each with a keystore of its own.
type world struct {
	t       *testing.T
	state   *state.Store
	raft    *fsm.Local
	servers map[string]*keyring.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := state.New()
	return &world{t: t, state: s, raft: fsm.NewLocal(s, registry()), servers: map[string]*keyring.Service{}}
}

// Invoke answers for one server.
type peer struct{ *keyring.Service }

func (p peer) Invoke(ctx context.Context, _ string, req, resp any) error {
	out, err := p.Unlock(ctx, req.(*api.RootKeyUnlockRequest))
	if err == nil {
		*resp.(*api.RootKeyUnlockResponse) = *out
	}
	return err
}

// server starts one with a keystore; those of reach are alive for it.
func (w *world) server(name, dir string, reach ...string) *keyring.Service {
	k := keyring.New(keyring.Config{
		Log: hclog.NewNullLogger(), State: w.state, Raft: w.raft, Dir: dir, Address: name, Patience: time.Millisecond,
		Servers: func() []string { return append(reach, name) },
		Peer: func(address string) (wire.Caller, error) {
			if k := w.servers[address]; k != nil {
				return peer{k}, nil
			}
			return nil, fault.New(fault.Unavailable, "%s is away", address)
		},
	})
	w.servers[name] = k
	return k
}

// run has a loop go on until the test ends.
func (w *world) run(loop func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = loop(ctx)
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// until waits for a fact about the state.
func (w *world) until(holds func(tx *state.Txn) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := state.Until(ctx, w.state, []state.Key{state.TableKey(state.TableRootKeys)}, holds); err != nil {
		w.t.Fatal("it did not come about")
	}
}

func (w *world) active() string {
	w.t.Helper()
	id := ""
	w.until(func(tx *state.Txn) bool {
		if k := tx.ActiveRootKey(); k != nil {
			id = k.KeyID
		}
		return id != ""
	})
	return id
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// eventually waits for a fact that no table tells.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestLeaderMakesOneKeyAndKeepsItOverRestarts(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	stop := w.run(w.server("a", dir).Lead)
	id := w.active()
	stop()
	again := w.server("a", dir)
	stop = w.run(again.Lead)
	secret, err := again.Active()
	if err != nil || secret.Sign == nil || len(secret.Data) != 32 {
		t.Fatalf("after a restart: %+v %v", secret, err)
	}
	stop()
	if w.active() != id {
		t.Error("the restart made another key")
	}
	for _, f := range files(t, dir) {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
}

func TestBothSignaturesVerifyWithThePublishedKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.server("a", "")
	w.run(a.Lead)
	id := w.active()
	secret, err := a.Active()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("text")
	hash := sha256.Sum256(text)
	signature, err := rsa.SignPKCS1v15(nil, secret.Sign, crypto.SHA256, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	public, err := a.Public(t.Context(), &api.QueryOptions{})
	if err != nil || len(public.Keys) != 2 {
		t.Fatalf("%+v %v", public, err)
	}
	raw := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r := &rsa.PublicKey{N: new(big.Int).SetBytes(raw(public.Keys[0].N)), E: int(new(big.Int).SetBytes(raw(public.Keys[0].E)).Int64())}
	if public.Keys[0].Kid != id || rsa.VerifyPKCS1v15(r, crypto.SHA256, hash[:], signature) != nil {
		t.Error("the RSA signature does not verify")
	}
	if !ed25519.Verify(raw(public.Keys[1].X), text, ed25519.Sign(secret.SignEd25519, text)) {
		t.Error("the Ed25519 signature does not verify")
	}
}

func TestNeitherLogNorStateHoldWhatUnwraps(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	a := w.server("a", dir)
	w.run(a.Lead)
	out, err := a.Unlock(t.Context(), &api.RootKeyUnlockRequest{KeyID: w.active()})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := a.Active()
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := w.state.Read().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(dump.Bytes(), out.Unlock) || bytes.Contains(dump.Bytes(), secret.Data) || bytes.Contains(dump.Bytes(), secret.Sign.D.Bytes()) {
		t.Error("the state holds a secret in clear")
	}
}

func TestOtherServersFetchWhatUnwraps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.server("a", t.TempDir()).Lead)
	id := w.active()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, id+".json"), []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.server("b", dir, "away", "a")
	stop := w.run(b.Run)
	eventually(t, "the other server has the key", func() bool { _, err := b.Active(); return err == nil })
	stop()
	delete(w.servers, "a") // what was fetched is on the disk
	if _, err := w.server("b", dir).Active(); err != nil {
		t.Error(err)
	}
}

func TestALeaderThatNobodyCanHelpMakesANewKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(w.server("a", t.TempDir()).Lead)
	lost := w.active()
	stop()
	delete(w.servers, "a")
	b := w.server("b", t.TempDir(), "a")
	w.run(b.Lead)
	w.until(func(tx *state.Txn) bool { k := tx.ActiveRootKey(); return k != nil && k.KeyID != lost })
	if k := w.state.Read().RootKey(lost); k == nil || k.State != api.RootKeyInactive {
		t.Errorf("what the lost key signed can be verified no more: %+v", k)
	}
	if _, err := b.Active(); err != nil {
		t.Error(err)
	}
}

func TestRotationRetiresAndDeletionForgets(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	a := w.server("a", dir)
	w.run(a.Run)
	w.run(a.Lead)
	first := w.active()
	out, err := a.Rotate(t.Context(), &api.RootKeyRotateRequest{})
	if err != nil || out.Key.State != api.RootKeyActive || out.Index == 0 {
		t.Fatalf("rotate: %+v %v", out, err)
	}
	list, err := a.List(t.Context(), &api.QueryOptions{})
	if err != nil || len(list.Keys) != 2 || list.Keys[0].KeyID != first || list.Keys[0].State != api.RootKeyInactive {
		t.Fatalf("list: %+v %v", list, err)
	}
	public, err := a.Public(t.Context(), &api.QueryOptions{})
	if err != nil || len(public.Keys) != 4 || public.Keys[2].Kid != out.Key.KeyID || public.Keys[2].Alg != "RS256" || public.Keys[2].E != "AQAB" {
		t.Fatalf("public: %+v %v", public, err)
	}
	if ed := public.Keys[3]; ed.Kid != out.Key.KeyID+"-ed25519" || ed.Kty != "OKP" || ed.Alg != "EdDSA" || ed.Crv != "Ed25519" || len(ed.X) != 43 {
		t.Errorf("Ed25519: %+v", ed)
	}
	if _, err := a.Delete(t.Context(), &api.RootKeyDeleteRequest{KeyID: out.Key.KeyID}); !errors.Is(err, fault.Conflict) {
		t.Errorf("delete the active key: %v", err)
	}
	if _, err := a.Delete(t.Context(), &api.RootKeyDeleteRequest{KeyID: first}); err != nil {
		t.Error(err)
	}
	if _, err := a.Delete(t.Context(), &api.RootKeyDeleteRequest{KeyID: first}); !errors.Is(err, fault.NotFound) {
		t.Errorf("delete it twice: %v", err)
	}
	eventually(t, "the keystore forgets the deleted key", func() bool { return len(files(t, dir)) == 1 })
	for _, bad := range []*api.RootKeyRotateRequest{{Algorithm: "rot13"}, {PublishTime: -1}} {
		if _, err := a.Rotate(t.Context(), bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestOfTwoKeysMadeAtOnceOneStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := func(id string) *api.RootKey {
		return &api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: id, State: api.RootKeyActive}}
	}
	if _, err := w.raft.Propose(t.Context(), &keyring.AddKey{Key: k("one")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.raft.Propose(t.Context(), &keyring.AddKey{Key: k("two")}); !errors.Is(err, fault.Conflict) {
		t.Errorf("the second: %v", err)
	}
	if w.active() != "one" {
		t.Error("the second took the place of the first")
	}
}

func TestKeysEncryptDataOnceAMajorityHasThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.server("a", t.TempDir(), "b"), w.server("b", t.TempDir(), "a")
	a.Voters = func() (*api.Voters, bool, error) {
		return &api.Voters{Servers: map[string]string{"1": "a", "2": "b", "3": "c"}}, true, nil
	}
	before, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := a.DataKey(before); !errors.Is(err, fault.Unavailable) {
		t.Errorf("before the first key: %v", err)
	}
	w.run(a.Lead)
	id := w.active()
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, _, err := a.DataKey(short); !errors.Is(err, fault.Unavailable) {
		t.Errorf("while one of three servers has the key: %v", err)
	}
	w.run(b.Run)
	got, key, err := a.DataKey(t.Context())
	if err != nil || got != id || len(key) != 32 {
		t.Fatalf("%q %v", got, err)
	}
	other, err := b.DataKeyOf(id)
	if err != nil || !bytes.Equal(key, other) {
		t.Errorf("the other server has another key: %v", err)
	}
	if _, err := b.DataKeyOf("none"); err == nil {
		t.Error("an unknown key was found")
	}
}
