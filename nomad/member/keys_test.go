package member_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/member"
)

func nullLog() hclog.Logger { return hclog.NewNullLogger() }

func key(fill byte, n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), n)))
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{16, 24, 32} {
		if err := member.CheckKey(key('k', n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, bad := range map[string]string{"text": "!secret!", "short": key('k', 15), "long": key('k', 33), "none": ""} {
		if err := member.CheckKey(bad); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "16, 24 or 32 bytes in base64") {
			t.Errorf("%s: %v", name, err)
		}
		if bad == "" {
			continue
		}
		h := newWorld().host(t, "a", 1)
		h.conf.Encrypt, h.conf.Log = bad, nullLog()
		if _, err := member.Open(h.conf); err == nil || !strings.Contains(err.Error(), "server.encrypt") || strings.Contains(err.Error(), bad) {
			t.Errorf("%s: open: %v", name, err)
		}
	}
}

func TestDamagedKeyRingIsToldByName(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"{", `["c2hvcnQ="]`} {
		h := newWorld().host(t, "a", 1)
		h.conf.Log = nullLog()
		if err := os.WriteFile(filepath.Join(h.conf.Dir, "serf.keyring"), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := member.Open(h.conf); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "serf.keyring") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestKeysTurnOver(t *testing.T) {
	t.Parallel()
	w, old, fresh := newWorld(), key('o', 32), key('n', 16)
	a := w.host(t, "a", 1)
	a.conf.Encrypt = old
	a.start()
	b := w.host(t, "b", 0, a)
	b.conf.Encrypt = old
	b.start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	for _, step := range []struct {
		op  api.KeyringOp
		key string
	}{{api.KeyringInstall, fresh}, {api.KeyringUse, fresh}, {api.KeyringRemove, old}} {
		if got, err := a.Keyring(step.op, step.key); err != nil || got.NumNodes != 2 {
			t.Fatalf("%s: %+v, %v", step.op, got, err)
		}
	}
	got, err := b.Keyring(api.KeyringList, "")
	if err != nil || len(got.Keys) != 1 || got.Keys[fresh] != 2 {
		t.Fatalf("keys: %+v, %v", got, err)
	}
	if _, err := a.Keyring(api.KeyringRemove, fresh); err == nil {
		t.Error("the key in use was removed")
	}
	if _, err := a.Keyring(api.KeyringInstall, "nonsense"); !errors.Is(err, fault.Invalid) {
		t.Errorf("a bad key: %v", err)
	}
	if _, err := a.Keyring("eat", fresh); !errors.Is(err, fault.Invalid) {
		t.Errorf("an unknown operation: %v", err)
	}
	file := filepath.Join(b.conf.Dir, "serf.keyring")
	body, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(body), fresh) || strings.Contains(string(body), old) {
		t.Errorf("key ring on disk: %s, %v", body, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key ring on disk: %v, %v", info, err)
	}
	b.stop()
	b.start()
	until(t, "b is back with the key of the ring", func() bool { return b.alive() == 2 && b.log.count("is not in the key ring on disk") == 1 })
}

func TestStrangersWithAnotherKeyStayOutside(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1)
	a.conf.Encrypt = key('o', 32)
	a.start()
	for name, with := range map[string]string{"b": key('x', 32), "c": ""} {
		h := w.host(t, name, 0)
		h.conf.Encrypt = with
		h.start()
		if n, err := h.Join([]string{a.address()}); n != 0 || err == nil {
			t.Errorf("%s joined %d: %v", name, n, err)
		}
	}
	if a.alive() != 1 {
		t.Errorf("members of a: %d", a.alive())
	}
	if _, err := w.host(t, "d", 1).start().Keyring(api.KeyringList, ""); !errors.Is(err, fault.Invalid) {
		t.Errorf("keys of a server without encryption: %v", err)
	}
}
