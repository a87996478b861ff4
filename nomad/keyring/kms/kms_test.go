package kms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
)

// installed is the directory of the program. The services of most tests share it: its installation takes a second with -race.
var installed string

func TestMain(m *testing.M) {
	var err error
	if installed, err = os.MkdirTemp("", "kms"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(installed)
	os.Exit(status)
}

// vault is the part of the HTTP API of Vault that the transit provider uses.
type vault struct {
	*httptest.Server
	refuse, hang atomic.Bool
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{}
	done := make(chan struct{})
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.hang.Load() {
			select {
			case <-done:
			case <-r.Context().Done():
			}
			return
		}
		if v.refuse.Load() || r.Header.Get("X-Vault-Token") != "token" {
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
			return
		}
		var in struct{ Plaintext, Ciphertext string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		out := map[string]string{}
		switch r.URL.Path {
		case "/v1/transit/encrypt/nomad":
			out["ciphertext"] = "vault:v1:" + base64.StdEncoding.EncodeToString([]byte("x"+in.Plaintext))
		case "/v1/transit/decrypt/nomad":
			text, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(in.Ciphertext, "vault:v1:"))
			out["plaintext"] = strings.TrimPrefix(string(text), "x")
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": out})
	}))
	t.Cleanup(func() { close(done); v.Close() })
	return v
}

func (v *vault) config() map[string]string {
	return map[string]string{"address": v.URL, "token": "token", "mount_path": "transit/", "key_name": "nomad", "disable_renewal": "true"}
}

func TestTransitEncryptsAndDecrypts(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.refuse.Store(true)
	s, err := kms.New("transit", v.config(), installed)
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("0123456789abcdef0123456789abcdef")
	if _, err := s.Encrypt(t.Context(), key); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("while it is refused: %v", err)
	}
	v.refuse.Store(false)
	encrypted, err := s.Encrypt(t.Context(), key)
	if err != nil || bytes.Contains(encrypted, key) {
		t.Fatalf("%q %v", encrypted, err)
	}
	other, err := kms.New("transit", v.config(), installed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Decrypt(t.Context(), encrypted); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := other.Decrypt(t.Context(), []byte("damaged")); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged key: %v", err)
	}
}

func TestAServiceThatHangsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.hang.Store(true)
	s, err := kms.New("transit", v.config(), installed)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the first attempt going on
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Encrypt(ctx, nil); err == nil || !strings.Contains(err.Error(), "transit does not answer") {
			t.Error(err)
		}
		cancel()
	}
}

func TestProvidersReportWrongConfigurations(t *testing.T) {
	t.Parallel()
	if _, err := kms.New("rot13", nil, ""); err == nil || !strings.Contains(err.Error(), "gcpckms") {
		t.Error(err)
	}
	for _, name := range kms.Providers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := kms.New(name, map[string]string{"disallow_env_vars": "true"}, installed)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := s.Encrypt(ctx, []byte("x")); err == nil || strings.Contains(err.Error(), "program") {
				t.Errorf("without a configuration: %v", err)
			}
		})
	}
}
