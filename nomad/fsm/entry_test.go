package fsm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// word is a command with one field, whose name tests may change.
type word struct {
	field string
	Text  string
}

func (*word) Kind() Kind { return 7 }

func (w *word) Apply(tx *state.Txn) (any, error) {
	tx.PutNamespace(&api.Namespace{Name: w.Text})
	return tx.Now(), nil
}

func (w *word) MarshalMsg(b []byte) ([]byte, error) {
	if w.Text == "" {
		return msgp.AppendMapHeader(b, 0), nil
	}
	return msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, 1), w.field), w.Text), nil
}

func (w *word) UnmarshalMsg(b []byte) ([]byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return b, err
	}
	for range n {
		var key string
		if key, b, err = msgp.ReadStringBytes(b); err != nil {
			return b, err
		}
		if key != w.field {
			if b, err = msgp.Skip(b); err != nil {
				return b, err
			}
		} else if w.Text, b, err = msgp.ReadStringBytes(b); err != nil {
			return b, err
		}
	}
	return b, nil
}

func words(field string) *Registry {
	r := NewRegistry()
	r.Register(func() Command { return &word{field: field} })
	return r
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	b, err := EncodeEntry(&word{"text", "hello"}, now, "server-1")
	if err != nil {
		t.Fatal(err)
	}
	e, err := decodeEntry(b)
	if err != nil || e.kind != 7 || !e.time.Equal(now) || e.proposer != "server-1" {
		t.Fatalf("entry %+v %v", e, err)
	}
	if _, err := EncodeEntry(&word{"text", "hello"}, now, strings.Repeat("s", 300)); !errors.Is(err, fault.Invalid) {
		t.Errorf("long proposer: %v", err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x40
		if _, err := decodeEntry(bad); err == nil {
			t.Errorf("a flipped byte at %d was not noticed", i)
		}
		if _, err := decodeEntry(b[:i]); err == nil {
			t.Errorf("an entry cut at %d was not noticed", i)
		}
	}
}

func TestDamagedEntryStopsTheMachine(t *testing.T) {
	t.Parallel()
	s := state.New()
	m := NewMachine(s, words("text"), hclog.NewNullLogger())
	good, err := EncodeEntry(&word{"text", "good"}, time.Now(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	if done := m.apply(5, good); done.Err != nil {
		t.Fatal(done.Err)
	}
	if done := m.apply(6, bad); done.Err == nil {
		t.Fatal("a damaged entry was applied")
	}
	<-m.failed
	if done := m.apply(7, good); done.Err == nil || s.Read().Index() != 5 {
		t.Errorf("an entry after the damaged one was applied: %v", done.Err)
	}
}

func TestLocalAppliesInOrder(t *testing.T) {
	t.Parallel()
	s := state.New()
	at := time.Unix(100, 0).UTC()
	l := NewLocal(s, words("text"))
	l.Now = func() time.Time { return at }
	for want := uint64(2); want < 5; want++ {
		res, err := l.Propose(t.Context(), &word{"text", "hello"})
		if err != nil || res.Index != want || res.Value != at {
			t.Fatalf("result %+v %v", res, err)
		}
	}
}

func TestGoldenNoticesARenamedField(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Golden(words("text"), dir, false); err == nil {
		t.Error("a missing entry was not noticed")
	}
	if err := Golden(words("text"), dir, true); err != nil {
		t.Fatal(err)
	}
	if err := Golden(words("text"), dir, false); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	if err := Golden(words("renamed"), dir, false); err == nil {
		t.Error("a renamed field was not noticed")
	}
	path := filepath.Join(dir, "00007.entry")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Golden(words("text"), dir, true); err == nil {
		t.Error("a damaged golden entry was not noticed")
	}
}

func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	a, b := DerivedID("seed", "ab", "c"), DerivedID("seed", "a", "bc")
	if a == b || len(a) != 36 || a != DerivedID("seed", "ab", "c") {
		t.Errorf("ids %s %s", a, b)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	b, err := EncodeEntry(&word{"text", "hello"}, time.Unix(1, 2), "s1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEntry(b); err == nil && len(e.body) > len(b) {
			t.Fatal("a body longer than its entry")
		}
	})
}
