package state_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A secret finds its token and no other, also in the state that a snapshot restores.
func TestSecretsFindTokens(t *testing.T) {
	t.Parallel()
	s := state.New()
	tx := s.Write(s.Read().Index()+1, time.Unix(1, 0))
	tx.PutACLToken(&api.ACLToken{AccessorID: "a", SecretID: "old"})
	tx.PutACLToken(&api.ACLToken{AccessorID: "b", SecretID: "other"})
	tx.PutACLToken(&api.ACLToken{AccessorID: "a", SecretID: "secret"})
	tx.PutACLToken(&api.ACLToken{AccessorID: "none"})
	tx.PutACLRole(&api.ACLRole{ID: "1", Name: "ops"})
	tx.Commit()
	var dump bytes.Buffer
	if err := s.Read().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	again := state.New()
	if err := again.Restore(&dump); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*state.Store{s, again} {
		tx := s.Read()
		for secret, accessor := range map[string]string{"secret": "a", "other": "b", "old": "", "sec": "", "": ""} {
			got := tx.ACLTokenBySecret(secret)
			if (got == nil) != (accessor == "") || got != nil && got.AccessorID != accessor {
				t.Errorf("%q finds %+v, want %q", secret, got, accessor)
			}
		}
		if r := tx.ACLRoleByName("ops"); r == nil || r.ID != "1" {
			t.Errorf("role %+v", r)
		}
	}
}
