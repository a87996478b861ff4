package csiplugins

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Calls that hang take no places from those that concern other nodes, and give their own up after a while.
func TestCallsThatHangCostOnlyTheirOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(8)
		var hung sync.WaitGroup
		over := make(chan struct{})
		for range 40 {
			hung.Go(func() {
				release, err := c.take(t.Context(), "p", "dead")
				if err != nil {
					t.Error(err)
					return
				}
				<-over
				release()
			})
		}
		synctest.Wait()
		begin := time.Now()
		release, err := c.take(t.Context(), "p", "healthy")
		if err != nil || time.Since(begin) > 0 {
			t.Fatalf("a call for a healthy node waited %s: %v", time.Since(begin), err)
		}
		release()
		release, err = c.take(t.Context(), "p", "dead")
		if err != nil || time.Since(begin) > 5*placeMax+time.Second {
			t.Fatalf("another call for the node waited %s: %v", time.Since(begin), err)
		}
		release()
		close(over)
		hung.Wait()
		if c.places.Len() != 0 {
			t.Errorf("%d kinds of places are left", c.places.Len())
		}
	})
}

// memory is a bucket that a process leaves behind.
type memory struct {
	m    map[string][]byte
	deny error
}

func (b *memory) Get(k string) ([]byte, error)    { return b.m[k], nil }
func (b *memory) All() (map[string][]byte, error) { return b.m, nil }
func (b *memory) Delete(k string) error           { delete(b.m, k); return nil }
func (b *memory) Put(k string, v []byte) error {
	if b.deny == nil {
		b.m[k] = v
	}
	return b.deny
}

// leader answers questions about intents.
type leader struct {
	asked []uint64
	say   func(*api.VolumeIntentRequest) error
}

func (l *leader) Invoke(_ context.Context, method string, req, _ any) error {
	if method != wire.VolumeConfirmIntent.Name {
		return fault.New(fault.Unimplemented, "%s", method)
	}
	r := req.(*api.VolumeIntentRequest)
	l.asked = append(l.asked, r.Fence)
	return l.say(r)
}

func fenced(t *testing.T, b *memory, l *leader) *Service {
	t.Helper()
	s, err := New(Config{
		Root: "/x", Registry: &memory{m: map[string][]byte{}}, Fences: b, Servers: l,
		NodeID: func() string { return "n" }, NodeSecret: func() string { return "s" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIntentsOutliveTheProcess(t *testing.T) {
	b := &memory{m: map[string][]byte{}}
	yes := &leader{say: func(*api.VolumeIntentRequest) error { return nil }}
	call := func(s *Service, intent uint64) error {
		return s.pass(t.Context(), "v", fence{PluginID: "p", ExternalID: "v", Intent: intent})
	}
	s := fenced(t, b, yes)
	if err := errors.Join(call(s, 5), call(s, 6)); err != nil {
		t.Fatal(err)
	}
	if err := call(s, 5); !errors.Is(err, fault.Conflict) {
		t.Errorf("an older intent: %v", err)
	}
	s = fenced(t, b, yes)
	if err := call(s, 5); !errors.Is(err, fault.Conflict) {
		t.Errorf("an older intent after a restart: %v", err)
	}
	if err := call(s, 6); err != nil {
		t.Errorf("the same intent again: %v", err)
	}
	b.deny = errors.New("disk is full")
	if err := call(s, 7); !errors.Is(err, fault.Unavailable) {
		t.Errorf("an intent that is not durable: %v", err)
	}
}

// Another host of the plugin may have seen a newer intent: the leader is asked before each call.
func TestIntentIsConfirmedByTheLeader(t *testing.T) {
	for _, c := range []struct {
		say, want error
	}{
		{nil, nil},
		{fault.New(fault.Conflict, "intent 9 is newer"), fault.Conflict},
		{fault.New(fault.Unavailable, "no servers"), fault.Unavailable},
		{fault.New(fault.NotFound, "?"), fault.Unavailable},
		{fault.New(fault.Unimplemented, "older servers"), nil},
	} {
		l := &leader{say: func(*api.VolumeIntentRequest) error { return c.say }}
		s := fenced(t, &memory{m: map[string][]byte{}}, l)
		if err := s.pass(t.Context(), "v", fence{PluginID: "p", Intent: 5}); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("the leader says %v: %v", c.say, err)
		}
		if len(l.asked) != 1 {
			t.Errorf("asked %d times", len(l.asked))
		}
		if err := s.pass(t.Context(), "v", fence{}); err != nil || len(l.asked) != 1 {
			t.Errorf("a call without an intent: %v", err)
		}
	}
}

// After an older snapshot was restored indexes begin lower. A leader that was deposed is long gone by then.
// Since an answer that came late the leader may have told another host to go on.
func TestConfirmationThatComesLateIsAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		late, asked int
		want        error
	}{"once": {1, 2, nil}, "always": {100, confirmTries, fault.Unavailable}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leader{}
				l.say = func(*api.VolumeIntentRequest) error {
					if len(l.asked) <= c.late {
						time.Sleep(api.ConfirmTerm)
					}
					return nil
				}
				err := fenced(t, &memory{m: map[string][]byte{}}, l).pass(t.Context(), "v", fence{PluginID: "p", ExternalID: "v", Intent: 5})
				if !errors.Is(err, c.want) || len(l.asked) != c.asked {
					t.Errorf("%v after %d questions", err, len(l.asked))
				}
			})
		})
	}
}

func TestOlderIntentCountsWhenTheLeaderInsists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fenced(t, &memory{m: map[string][]byte{}}, &leader{say: func(*api.VolumeIntentRequest) error { return nil }})
		f := fence{PluginID: "p", ExternalID: "v", Intent: 100}
		if err := s.pass(t.Context(), "v", f); err != nil {
			t.Fatal(err)
		}
		f.Intent = 7
		if err := s.pass(t.Context(), "v", f); !errors.Is(err, fault.Conflict) {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(fenceSettles)
		if err := s.pass(t.Context(), "v", f); err != nil {
			t.Errorf("later: %v", err)
		}
		f.Intent = 6
		if err := s.pass(t.Context(), "v", f); !errors.Is(err, fault.Conflict) {
			t.Errorf("one that is older still: %v", err)
		}
	})
}

// Fences are forgotten when the servers refuse their intents themselves, and never otherwise.
func TestFencesAreKeptUntilTheServersRefuseThem(t *testing.T) {
	current := func(r *api.VolumeIntentRequest) bool { return r.Fence%2 == 0 }
	l := &leader{say: func(r *api.VolumeIntentRequest) error {
		if !current(r) {
			return fault.New(fault.Conflict, "it is over")
		}
		return nil
	}}
	b := &memory{m: map[string][]byte{}}
	s := fenced(t, b, l)
	for i := range uint64(fencesKept + 100) {
		key := Hash("v", time.Duration(i).String())
		if err := s.fences.set(key, fence{PluginID: "p", Intent: i}); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		s.prune(t.Context())
	}
	if n := len(s.fences.seen); n > fencesKept || n != len(b.m) {
		t.Errorf("%d fences are kept, %d on disk", n, len(b.m))
	}
	kept := 0
	for _, f := range s.fences.seen {
		if f.Intent%2 == 0 {
			kept++
		}
	}
	if want := (fencesKept + 100) / 2; kept != want {
		t.Errorf("%d fences of current intents are kept, not %d", kept, want)
	}
}
