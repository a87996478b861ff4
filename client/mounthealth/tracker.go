package mounthealth

import (
	"sync"
	"time"
)

const (
	// failAfter is how many times in a row a mount must be unresponsive.
	failAfter = 2
	// calmAfter is how long a mount must have been healthy for its next failure to be the first again.
	calmAfter = 10 * time.Minute
)

// state is what is remembered of one mount.
type state struct {
	unresponsive int // times in a row
	failed       bool
	failures     int // without calm between them
	last         time.Time
	reported     string // the last error of its repair
}

// tracker knows the mounts that are, or were, not healthy.
type tracker struct {
	mu     sync.Mutex
	states map[string]*state
}

// retain drops what is remembered of other mounts than the given ones.
func (t *tracker) retain(keys map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.states {
		if !keys[key] {
			delete(t.states, key)
		}
	}
}

// record stores a probe result and reports a transition: failed, with the number of earlier failures, or
// recovered.
func (t *tracker) record(key string, h Health, now time.Time) (failed, recovered bool, earlier int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[key]
	if s == nil {
		if h != Unresponsive && h != Failed {
			return false, false, 0
		}
		if t.states == nil {
			t.states = map[string]*state{}
		}
		s = &state{}
		t.states[key] = s
	}
	switch h {
	case Healthy:
		recovered = s.failed
		s.unresponsive, s.failed, s.reported = 0, false, ""
	case Unresponsive:
		s.unresponsive++
	case Failed:
		s.unresponsive = failAfter
	}
	if s.failed || s.unresponsive < failAfter {
		return false, recovered, 0
	}
	if now.Sub(s.last) > calmAfter {
		s.failures = 0
	}
	earlier = s.failures
	s.failed, s.last, s.failures = true, now, s.failures+1
	return true, false, earlier
}

// counts returns how many mounts have failed, and how many did not respond and have not failed yet.
func (t *tracker) counts() (failed, unresponsive int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.states {
		switch {
		case s.failed:
			failed++
		case s.unresponsive > 0:
			unresponsive++
		}
	}
	return failed, unresponsive
}

// news reports whether the error of a repair is another one than before, and remembers it.
func (t *tracker) news(key, failure string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[key]
	if s == nil || s.reported == failure {
		return false
	}
	s.reported = failure
	return true
}
