package state_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestOnlyCanonicalIDsAreShort(t *testing.T) {
	for range 100 {
		id := uuid.New()
		raw, ok := state.ShortID(id.String())
		if !ok || raw != id || state.LongID(raw) != id.String() {
			t.Fatalf("%s became %x", id, raw)
		}
		for at := range id.String() {
			for _, c := range []byte("AGg-\x00\xff") {
				text := []byte(id.String())
				was := text[at]
				text[at] = c
				if _, ok := state.ShortID(string(text)); ok != (c == was) {
					t.Fatalf("%q is short: %v", text, ok)
				}
			}
		}
	}
	for _, text := range []string{"", "n1", "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-0000000000000", "-00000000000-0000-0000-000000000000"} {
		if _, ok := state.ShortID(text); ok {
			t.Errorf("%q is short", text)
		}
	}
}
