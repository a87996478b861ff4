package keyring_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// unreadable asserts that nothing of the active key can be used, and that the errors name the cause and the next step.
func unreadable(t *testing.T, k *keyring.Service, id string, causes ...string) {
	t.Helper()
	_, active := k.Active()
	_, data := k.DataKeyOf(id)
	if err := k.Health(); err == nil || !strings.Contains(err.Error(), id) {
		t.Errorf("health: %v", err)
	}
	for _, err := range []error{active, data} {
		for _, cause := range append(causes, id, "start a server that has it") {
			if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), cause) {
				t.Errorf("%v, want %q", err, cause)
			}
		}
	}
}

func TestNoNewKeyWhileAnotherServerMayHaveTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dir := t.TempDir()
		stop := w.run(w.server("a", dir).Lead)
		id := w.active()
		stop()
		delete(w.servers, "a")
		b := w.server("b", t.TempDir(), "c")
		w.server("c", t.TempDir())
		b.Voters = func() (*api.Voters, bool, error) {
			return &api.Voters{Servers: map[string]string{"1": "a", "2": "b", "3": "c"}}, true, nil
		}
		stop = w.run(b.Lead)
		time.Sleep(time.Hour)
		stop()
		if w.active() != id {
			t.Fatal("a new key was made while a server is away that has the old one")
		}
		unreadable(t, b, id, ".json is missing", "none of 1 other servers")
		w.server("a", dir) // it returns
		b.Servers = func() []string { return []string{"a", "b", "c"} }
		defer w.run(b.Lead)()
		time.Sleep(10 * time.Second)
		if err := b.Health(); err != nil || w.active() != id {
			t.Errorf("after the server with the key returned: %v", err)
		}
	})
}

func TestNewKeyWhenEveryVoterLostTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run(w.server("a", "").Lead)
		id := w.active()
		stop()
		b := w.server("b", t.TempDir(), "a")
		w.server("a", t.TempDir()) // without its files
		b.Voters = func() (*api.Voters, bool, error) {
			return &api.Voters{Servers: map[string]string{"1": "a", "2": "b"}}, true, nil
		}
		defer w.run(b.Lead)()
		time.Sleep(time.Minute)
		if w.active() == id {
			t.Error("no new key was made")
		}
		if _, err := b.Active(); err != nil {
			t.Error(err)
		}
	})
}

func TestChangedKeyFilesAndRowsAreRefused(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	stop := w.run(w.server("a", dir).Lead)
	id := w.active()
	stop()
	file := filepath.Join(dir, id+".json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := w.state.Read().RootKey(id)
	for name, c := range map[string]struct {
		file  string
		row   func(k *api.RootKey)
		cause string
	}{
		"empty file":   {"", func(*api.RootKey) {}, id + ".json is damaged"},
		"other bytes":  {strings.Replace(string(good), `"Unlock":"`, `"Unlock":"AAAA`, 1), func(*api.RootKey) {}, id + ".json is damaged"},
		"other key":    {`{"KeyID":"` + id + `","Unlock":"` + strings.Repeat("A", 43) + `="}`, func(*api.RootKey) {}, "does not decrypt it"},
		"row cut":      {string(good), func(k *api.RootKey) { k.Wrapped = k.Wrapped[:7] }, "does not decrypt it"},
		"row empty":    {string(good), func(k *api.RootKey) { k.Wrapped = nil }, "does not decrypt it"},
		"row changed":  {string(good), func(k *api.RootKey) { k.Wrapped[100] ^= 1 }, "does not decrypt it"},
		"not external": {"", func(k *api.RootKey) { k.External = []*api.RootKeyExternal{{Provider: "x"}} }, `keyring "x": it is not in the configuration`},
	} {
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		w.given(func(tx *state.Txn) {
			changed := *row
			changed.Wrapped = append([]byte(nil), row.Wrapped...)
			c.row(&changed)
			tx.PutRootKey(&changed)
		})
		b := w.server("b", dir)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = b.Run(ctx) }()
		eventually(t, name, func() bool {
			_, err := b.Active()
			return err != nil && strings.Contains(err.Error(), "no other server is alive")
		})
		unreadable(t, b, id, c.cause)
		cancel()
		<-done
	}
}

// kms is an external service in memory.
type kms struct {
	away bool
	by   byte
}

func (k *kms) Encrypt(_ context.Context, b []byte) ([]byte, error) {
	if k.away {
		return nil, errors.New("connection refused")
	}
	out := append([]byte(nil), b...)
	for i := range out {
		out[i] ^= k.by
	}
	return out, nil
}

func (k *kms) Decrypt(ctx context.Context, b []byte) ([]byte, error) { return k.Encrypt(ctx, b) }

func TestExternalServicesReplaceKeyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		one, two := &kms{by: 1}, &kms{by: 2}
		server := func(name string) *keyring.Service {
			k := w.server(name, dir)
			k.Providers = []keyring.Provider{{Name: "one", Active: true, External: one}, {Name: "two", Active: true, External: two}, {Name: "three", External: &kms{away: true}}}
			return k
		}
		a := keyring.New(keyring.Config{
			Log: w.server("x", "").Log, State: w.state, Raft: w.raft, Dir: dir, NoFiles: true, Providers: server("y").Providers,
			Servers: func() []string { return nil },
		})
		stop := w.run(a.Lead)
		id := w.active()
		stop()
		if got := files(t, dir); len(got) > 0 {
			t.Errorf("key files were written: %v", got)
		}
		one.away = true
		b := server("b")
		stop = w.run(b.Run)
		synctest.Wait()
		if _, err := b.Active(); err != nil {
			t.Errorf("one of two services is away: %v", err)
		}
		stop()
		if _, err := b.Rotate(t.Context(), &api.RootKeyRotateRequest{}); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), `keyring "one"`) {
			t.Errorf("rotate while a service is away: %v", err)
		}
		two.away = true
		c := keyring.New(keyring.Config{
			Log: b.Log, State: w.state, Raft: w.raft, NoFiles: true, Providers: b.Providers, Servers: func() []string { return nil }, Patience: time.Second,
		})
		stop = w.run(c.Lead)
		time.Sleep(time.Hour)
		unreadable(t, c, id, `keyring "one": connection refused`, `keyring "two": connection refused`)
		if w.active() != id {
			t.Error("a new key was made while the services are away")
		}
		stop()
		two.away = false
		defer w.run(c.Lead)()
		time.Sleep(10 * time.Second)
		if err := c.Health(); err != nil {
			t.Error(err)
		}
	})
}
