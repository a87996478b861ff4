package variables_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variables"
)

// keys are root keys in memory.
type keys struct {
	mu     sync.Mutex
	active string
	all    map[string][]byte
}

func (k *keys) DataKey(context.Context) (string, []byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active, k.all[k.active], nil
}

func (k *keys) DataKeyOf(id string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.all[id]; key != nil {
		return key, nil
	}
	return nil, fault.New(fault.Unavailable, "no key %q", id)
}

type fixture struct {
	*variables.Service
	t     *testing.T
	state *state.Store
	raft  *fsm.Local
	keys  *keys
}

func open(t *testing.T) *fixture {
	t.Helper()
	s := state.New()
	f := &fixture{t: t, state: s, raft: fsm.NewLocal(s, fsm.NewRegistry(variables.Commands, keyring.Commands)), keys: &keys{all: map[string][]byte{}}}
	f.given(func(tx *state.Txn) {
		tx.PutNamespace(&api.Namespace{Name: "default"})
		tx.PutNamespace(&api.Namespace{Name: "other"})
	})
	f.rotate("k1")
	f.Service = f.server()
	return f
}

// server is another server over the same log.
func (f *fixture) server() *variables.Service {
	return variables.New(variables.Config{State: f.state, Raft: f.raft, Keys: f.keys})
}

func (f *fixture) given(put func(tx *state.Txn)) {
	tx := f.state.Write(f.state.Read().Index()+1, time.Now())
	put(tx)
	tx.Commit()
}

func (f *fixture) rotate(id string) {
	f.t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	f.keys.mu.Lock()
	old := f.keys.active
	f.keys.active, f.keys.all[id] = id, key
	f.keys.mu.Unlock()
	row := &api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: id, State: api.RootKeyActive}}
	if _, err := f.raft.Propose(f.t.Context(), &keyring.AddKey{Key: row, Replaces: old}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) apply(r api.VariableApplyRequest) (*api.VariableApplyResponse, error) {
	if r.Op == "" {
		r.Op = api.VariableSet
	}
	return f.Apply(f.t.Context(), &r)
}

// done applies a change that must be made.
func (f *fixture) done(r api.VariableApplyRequest) *api.VariableApplyResponse {
	f.t.Helper()
	out, err := f.apply(r)
	if err != nil || out.Conflict {
		f.t.Fatalf("%s of %s: %+v %v", r.Op, r.Path, out, err)
	}
	return out
}

// conflict applies a change that must not be made.
func (f *fixture) conflict(r api.VariableApplyRequest) *api.VariableApplyResponse {
	f.t.Helper()
	out, err := f.apply(r)
	if err != nil || !out.Conflict {
		f.t.Fatalf("%s of %s: %+v %v", r.Op, r.Path, out, err)
	}
	return out
}

func (f *fixture) get(path string) *api.VariableResponse {
	f.t.Helper()
	out, err := f.Get(f.t.Context(), &api.VariableRequest{Path: path})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func items(v string) map[string]string { return map[string]string{"k": v} }

func TestVariablesAreReadAsTheyWereWritten(t *testing.T) {
	f := open(t)
	first := f.done(api.VariableApplyRequest{Path: "app/x", Items: items("1")})
	second := f.done(api.VariableApplyRequest{Path: "app/x", Items: items("2")})
	got := f.get("app/x")
	m := got.Meta
	if got.Items["k"] != "2" || m.CreateIndex != first.Index || m.ModifyIndex != second.Index || got.Index != second.Index ||
		m.CreateTime == 0 || m.ModifyTime < m.CreateTime || m.Namespace != "default" || second.Items["k"] != "2" {
		t.Fatalf("%+v %+v", got, m)
	}
	if f.get("app/y").Meta != nil {
		t.Error("a missing variable exists")
	}
	f.done(api.VariableApplyRequest{Op: api.VariableDelete, Path: "app/x"})
	f.done(api.VariableApplyRequest{Op: api.VariableDelete, Path: "app/x"})
	if f.get("app/x").Meta != nil {
		t.Error("a deleted variable exists")
	}
}

func TestWrongVariablesAreRefused(t *testing.T) {
	f := open(t)
	for path, words := range map[string]string{
		"": "invalid path", "a//b": "two follow", "/a": "at its begin", "a/": "at its begin or end", "a/../b": "invalid path", "a\x00b": "invalid path",
		"ä": "invalid path", strings.Repeat("a/", 1000) + "a": "invalid path", strings.Repeat("a", 129): "invalid path",
		"nomad": "only paths at", "nomad/bad": "only paths at", "nomad/jobsx": "only paths at",
	} {
		_, err := f.apply(api.VariableApplyRequest{Path: path, Items: items("1")})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.20q: %v", path, err)
		}
	}
	for _, path := range []string{"nomad/jobs", "nomad/jobs/web/g/t", "nomad/job-templates/x", "a-b_c~d", strings.Repeat("a", 128)} {
		f.done(api.VariableApplyRequest{Path: path, Items: items("1")})
	}
	f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "lock/without/items"})
	for words, r := range map[string]api.VariableApplyRequest{
		"missing required Items":             {},
		"variables are limited to 64KiB":     {Items: items(strings.Repeat("x", 64<<10))},
		`nonexistent namespace "*"`:          {Items: items("1"), WriteRequest: api.WriteRequest{Namespace: "*"}},
		`TTL 9s is not from 10s`:             {Op: api.VariableAcquire, Items: items("1"), Lock: &api.VariableLock{TTL: "9s"}},
		`TTL 24h0m1s is not from`:            {Op: api.VariableAcquire, Items: items("1"), Lock: &api.VariableLock{TTL: "24h1s"}},
		`LockDelay -1s is not from`:          {Op: api.VariableAcquire, Items: items("1"), Lock: &api.VariableLock{LockDelay: "-1s"}},
		`LockDelay "soon" is not a duration`: {Op: api.VariableAcquire, Items: items("1"), Lock: &api.VariableLock{LockDelay: "soon"}},
		`operation "x"`:                      {Op: "x", Items: items("1")},
	} {
		r.Path = "p"
		if _, err := f.apply(r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
	f.done(api.VariableApplyRequest{Path: "p", Items: items(strings.Repeat("x", 64<<10-1))})
}

func TestChangesCompareTheIndex(t *testing.T) {
	f := open(t)
	cas := func(path, v string, index uint64) api.VariableApplyRequest {
		return api.VariableApplyRequest{Op: api.VariableCAS, Path: path, Items: items(v), CheckIndex: index}
	}
	if out := f.conflict(cas("p", "0", 5)); out.Meta.Path != "p" || out.Meta.ModifyIndex != 0 {
		t.Errorf("%+v", out.Meta)
	}
	first := f.done(cas("p", "1", 0))
	if out := f.conflict(cas("p", "x", 0)); out.Items["k"] != "1" || out.Meta.ModifyIndex != first.Index {
		t.Errorf("the conflicting variable is %+v", out)
	}
	second := f.done(cas("p", "2", first.Index))
	f.conflict(api.VariableApplyRequest{Op: api.VariableDeleteCAS, Path: "p", CheckIndex: first.Index})
	f.done(api.VariableApplyRequest{Op: api.VariableDeleteCAS, Path: "p", CheckIndex: second.Index})
	f.conflict(api.VariableApplyRequest{Op: api.VariableDeleteCAS, Path: "p", CheckIndex: second.Index})
}

func TestOfConcurrentChangesOneIsMade(t *testing.T) {
	f := open(t)
	var wg sync.WaitGroup
	made := make(chan string, 20)
	for i := range 20 {
		wg.Go(func() {
			out, err := f.apply(api.VariableApplyRequest{Op: api.VariableCAS, Path: "p", Items: items(fmt.Sprint(i))})
			if err == nil && !out.Conflict {
				made <- fmt.Sprint(i)
			}
		})
	}
	wg.Wait()
	if len(made) != 1 || f.get("p").Items["k"] != <-made {
		t.Error("more than one change was made, or none")
	}
}

func TestListsShowNoItemsAndNoLockIDs(t *testing.T) {
	f := open(t)
	for _, p := range []string{"b", "a/1", "a/2"} {
		f.done(api.VariableApplyRequest{Path: p, Items: items("1")})
	}
	f.done(api.VariableApplyRequest{Path: "c", Items: items("1"), WriteRequest: api.WriteRequest{Namespace: "other"}})
	f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "a/1"})
	list := func(q api.QueryOptions) string {
		out, err := f.List(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, v := range out.Variables {
			paths = append(paths, v.Path)
			if v.Lock != nil && v.Lock.ID != "" {
				t.Errorf("the list shows the lock ID of %s", v.Path)
			}
		}
		return strings.Join(append(paths, out.NextToken), " ")
	}
	for want, q := range map[string]api.QueryOptions{
		"a/1 a/2 b ":          {},
		"a/1 a/2 ":            {Prefix: "a/"},
		"b a/2 a/1 ":          {Reverse: true},
		"a/1 a/2 b c ":        {Namespace: "*"},
		"a/1 default.a/2":     {PerPage: 1},
		"a/2 default.b":       {PerPage: 1, NextToken: "default.a/2"},
		"b ":                  {Filter: `Path == "b"`},
		"a/1 a/2 b  filtered": {Filter: `Namespace == "default"`},
	} {
		if got := list(q); got != strings.TrimSuffix(want, " filtered") {
			t.Errorf("%+v: got %q, want %q", q, got, want)
		}
	}
	if l := f.get("a/1").Meta.Lock; l == nil || l.ID != "" || l.TTL != "15s" {
		t.Errorf("a read shows %+v", l)
	}
}

func TestRowsThatWereMovedDoNotDecrypt(t *testing.T) {
	f := open(t)
	f.done(api.VariableApplyRequest{Path: "secret", Items: items("1")})
	f.given(func(tx *state.Txn) {
		row := *tx.Variable("default", "secret")
		row.Path = "mine"
		tx.PutVariable(&row)
		other := *tx.Variable("default", "secret")
		other.Namespace = "other"
		tx.PutVariable(&other)
	})
	for _, r := range []api.VariableRequest{{Path: "mine"}, {Path: "secret", QueryOptions: api.QueryOptions{Namespace: "other"}}} {
		if out, err := f.Get(t.Context(), &r); err == nil || strings.Contains(err.Error(), "1\"") {
			t.Errorf("moved to %+v: %+v %v", r, out, err)
		}
	}
}

func TestEntriesAndSnapshotsHoldNoItems(t *testing.T) {
	f := open(t)
	const canary = "canary-4711"
	f.done(api.VariableApplyRequest{Path: "p", Items: map[string]string{canary: canary}})
	a := f.state.Read().Variable("default", "p").Data
	f.done(api.VariableApplyRequest{Path: "p", Items: map[string]string{canary: canary}})
	if bytes.Equal(a, f.state.Read().Variable("default", "p").Data) {
		t.Error("the same items encrypt to the same bytes")
	}
	var dump, redacted bytes.Buffer
	if err := errors.Join(f.state.Read().Dump(&dump), f.state.Read().DumpRedacted(&redacted)); err != nil {
		t.Fatal(err)
	}
	data := f.state.Read().Variable("default", "p").Data
	if !bytes.Contains(dump.Bytes(), data) || bytes.Contains(dump.Bytes(), []byte(canary)) || bytes.Contains(redacted.Bytes(), data) {
		t.Error("a snapshot holds items in clear, or a redacted one the encrypted items")
	}
}

func TestLocks(t *testing.T) {
	f := open(t)
	got := f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l", Items: items("1"), Lock: &api.VariableLock{TTL: "15s", LockDelay: "1s"}})
	held := got.Meta.Lock
	if held == nil || held.ID == "" || held.TTL != "15s" || held.LockDelay != "1s" || got.Items["k"] != "1" {
		t.Fatalf("%+v", got)
	}
	other := f.conflict(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l", Items: items("2"), Lock: &api.VariableLock{TTL: "15s"}})
	if other.Meta.ModifyIndex != 0 || other.Items != nil || other.Meta.Lock != nil {
		t.Errorf("the conflict is %+v", other)
	}
	for _, r := range []api.VariableApplyRequest{
		{Path: "l", Items: items("2")},
		{Path: "l", Items: items("2"), Lock: &api.VariableLock{ID: "x"}},
		{Op: api.VariableDelete, Path: "l"},
		{Op: api.VariableCAS, Path: "l", Items: items("2"), CheckIndex: got.Index},
		{Op: api.VariableRelease, Path: "l", Lock: &api.VariableLock{ID: "x"}},
		{Op: api.VariableRelease, Path: "l"},
	} {
		if out := f.conflict(r); out.Meta.Lock != nil && out.Meta.Lock.ID != "" {
			t.Errorf("%+v shows the lock ID", r)
		}
	}
	f.done(api.VariableApplyRequest{Path: "l", Items: items("3"), Lock: held})
	if _, err := f.Renew(t.Context(), &api.VariableRenewRequest{Path: "l", LockID: "x"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("renewal with a wrong ID: %v", err)
	}
	if out, err := f.Renew(t.Context(), &api.VariableRenewRequest{Path: "l", LockID: held.ID}); err != nil || out.Meta.Lock.ID != held.ID {
		t.Errorf("renewal: %+v %v", out, err)
	}
	if out := f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l", Lock: held}); out.Meta.Lock.ID != held.ID || out.Items["k"] != "3" {
		t.Errorf("the holder acquires again: %+v", out)
	}
	released := f.done(api.VariableApplyRequest{Op: api.VariableRelease, Path: "l", Lock: held})
	if released.Meta.Lock != nil || released.Items != nil || released.Meta.ModifyIndex != released.Index {
		t.Errorf("release: %+v", released)
	}
	f.conflict(api.VariableApplyRequest{Path: "l", Items: items("4"), Lock: held})
	if _, err := f.Renew(t.Context(), &api.VariableRenewRequest{Path: "l", LockID: held.ID}); !errors.Is(err, fault.Conflict) {
		t.Errorf("renewal of a released lock: %v", err)
	}
	if f.get("l").Items["k"] != "3" {
		t.Error("a refused change was made")
	}
	if out := f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "new"}); out.Meta.Lock == nil || len(out.Items) != 0 || f.get("new").Meta == nil {
		t.Errorf("a lock does not create its variable: %+v", out)
	}
}

// run lets a server lead.
func run(t *testing.T, loop func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = loop(ctx) }()
	return func() { cancel(); <-done }
}

func TestLocksExpireAfterTheirTTLAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		stop := run(t, f.Run)
		held := f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l", Items: items("1"), Lock: &api.VariableLock{TTL: "10s", LockDelay: "5s"}}).Meta.Lock
		locked := func() bool { synctest.Wait(); return f.state.Read().Variable("default", "l").Lock != nil }
		renew := func(s *variables.Service) error {
			_, err := s.Renew(t.Context(), &api.VariableRenewRequest{Path: "l", LockID: held.ID})
			return err
		}
		time.Sleep(9 * time.Second)
		if err := renew(f.Service); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		// A new leader gives the lock a whole TTL.
		stop()
		next := f.server()
		stop = run(t, next.Run)
		time.Sleep(9 * time.Second)
		if !locked() {
			t.Fatal("the lock expired at the change of the leader")
		}
		f.Service = next
		time.Sleep(2 * time.Second)
		if err := renew(next); !errors.Is(err, fault.Conflict) {
			t.Errorf("renewal in the delay: %v", err)
		}
		f.conflict(api.VariableApplyRequest{Path: "l", Items: items("2"), Lock: held})
		f.conflict(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l"})
		time.Sleep(3 * time.Second)
		if !locked() {
			t.Fatal("the lock was removed in its delay")
		}
		time.Sleep(1100 * time.Millisecond)
		if locked() {
			t.Fatal("the lock did not expire")
		}
		f.conflict(api.VariableApplyRequest{Path: "l", Items: items("2"), Lock: held})
		f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "l"})
		stop()
	})
}

func TestRotatedKeysEncryptEverythingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 200 {
			f.done(api.VariableApplyRequest{Path: fmt.Sprint("v", i), Items: items(fmt.Sprint(i))})
		}
		before := f.get("v7").Meta.ModifyIndex
		f.rotate("k2")
		if _, err := f.raft.Propose(t.Context(), &keyring.DeleteKey{KeyID: "k1"}); !errors.Is(err, fault.Conflict) {
			t.Errorf("delete a used key: %v", err)
		}
		stop := run(t, f.Rotate)
		synctest.Wait()
		for v := range f.state.Read().VariablesOfRootKey("k1") {
			t.Fatalf("%s is encrypted with the old key", v.Path)
		}
		stop()
		for i := range 200 {
			if v := f.get(fmt.Sprint("v", i)); v.Items["k"] != fmt.Sprint(i) {
				t.Fatalf("v%d is %+v", i, v)
			}
		}
		if f.get("v7").Meta.ModifyIndex != before {
			t.Error("clients see an encryption as a change")
		}
		if _, err := f.raft.Propose(t.Context(), &keyring.DeleteKey{KeyID: "k1"}); err != nil {
			t.Error(err)
		}
	})
}

// ending are keys that end a leader's term after so many encryptions.
type ending struct {
	*keys
	left int
	end  context.CancelFunc
}

func (e *ending) DataKey(ctx context.Context) (string, []byte, error) {
	if e.left--; e.left == 0 {
		e.end()
	}
	return e.keys.DataKey(ctx)
}

func TestTheNextLeaderContinuesToEncrypt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 200 {
			f.done(api.VariableApplyRequest{Path: fmt.Sprint("v", i), Items: items(fmt.Sprint(i))})
		}
		f.rotate("k2")
		left := func() (n int) {
			for range f.state.Read().VariablesOfRootKey("k1") {
				n++
			}
			return n
		}
		term, end := context.WithCancel(t.Context())
		first := variables.New(variables.Config{State: f.state, Raft: f.raft, Keys: &ending{f.keys, 100, end}})
		if err := first.Rotate(term); err != nil {
			t.Fatal(err)
		}
		if n := left(); n == 0 || n == 200 {
			t.Fatalf("%d variables are left when the first leader ends", n)
		}
		stop := run(t, f.server().Rotate)
		synctest.Wait()
		if n := left(); n > 0 {
			t.Errorf("%d variables are left after the second", n)
		}
		stop()
		for i := range 200 {
			if v := f.get(fmt.Sprint("v", i)); v.Items["k"] != fmt.Sprint(i) {
				t.Fatalf("v%d is %+v", i, v)
			}
		}
	})
}

func TestKeysInUseAreDeletedByForceOnly(t *testing.T) {
	f := open(t)
	f.done(api.VariableApplyRequest{Path: "p", Items: items("1")})
	f.rotate("k2")
	if _, err := f.raft.Propose(t.Context(), &keyring.DeleteKey{KeyID: "k1"}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 variables") {
		t.Errorf("without force: %v", err)
	}
	if _, err := f.raft.Propose(t.Context(), &keyring.DeleteKey{KeyID: "k1", Force: true}); err != nil {
		t.Error(err)
	}
}

func TestVariablesThatChangedAreNotReplacedByOldItems(t *testing.T) {
	f := open(t)
	f.done(api.VariableApplyRequest{Path: "p", Items: items("1")})
	old := *f.state.Read().Variable("default", "p")
	f.done(api.VariableApplyRequest{Path: "p", Items: items("2")})
	if _, err := f.raft.Propose(t.Context(), &variables.Reencrypt{Rows: []*api.VariableRow{&old}}); err != nil {
		t.Fatal(err)
	}
	if v := f.get("p").Items["k"]; v != "2" {
		t.Errorf("the items are %q", v)
	}
}

func TestLocksKeepItemsThatWereWrittenMeanwhile(t *testing.T) {
	f := open(t)
	f.done(api.VariableApplyRequest{Path: "p", Items: items("1")})
	// The command of a request that did not see the variable.
	row := &api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "default", Path: "p", Lock: &api.VariableLock{ID: "l", TTL: "10s"}}, KeyID: "k1", Data: []byte("none")}
	if _, err := f.raft.Propose(t.Context(), &variables.Set{Op: api.VariableAcquire, Row: row, Keep: true}); err != nil {
		t.Fatal(err)
	}
	if v := f.get("p"); v.Items["k"] != "1" || v.Meta.Lock == nil {
		t.Errorf("%+v", v)
	}
}
