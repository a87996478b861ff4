package reconciler

import "time"

// tries remembers the calls of a key.
type tries struct {
	// failed are those that failed, by intent.
	failed map[string]try
	// passed are the plugins that completed their calls, for callers that wait for them.
	passed map[string]bool
}

func newTries() tries { return tries{map[string]try{}, map[string]bool{}} }

// try describes a call that failed.
type try struct {
	// failed counts the tries, alike those that failed like the last one, and timeouts those that reached their bound.
	failed, alike, timeouts int
	kinds                   map[string]int
	// news is set when the call fails in another way than before, and at tries 1, 2, 4, 8, ...: a call that keeps failing
	// must not fill the log, whatever its driver's texts are.
	news bool
	// begun is set once there was a try, uncertain once one of them may have had its effect.
	begun, uncertain bool
	due              time.Time
	// waits counts the waits between tries, those that were cut short as one with the next.
	waits int
	// early is the plugin whose next success causes an early retry of this call; empty means none. usual is when an early
	// retry was due.
	early string
	usual time.Time
}

// wait is how long to wait between tries: from min, doubled each time up to max, give or take a quarter.
type wait struct {
	min, max time.Duration
	// chance returns a random duration below the given one.
	chance func(time.Duration) time.Duration
}

func (w wait) after(waits int) time.Duration {
	d := w.min
	for i := 1; i < waits && d < w.max; i++ {
		d *= 2
	}
	d = min(d, w.max)
	return d*3/4 + w.chance(d/2+1)
}

// note records a failure and when the next try is due. An early retry does not change that time: a plugin that works for
// other calls only is called at most twice as often.
func (t tries) note(o operation, f failure, now time.Time, w wait) try {
	last := t.failed[o.name]
	next := try{failed: last.failed + 1, waits: last.waits, timeouts: last.timeouts, kinds: last.kinds, begun: true, uncertain: last.uncertain || f.uncertain}
	if next.kinds == nil {
		next.kinds = map[string]int{}
	}
	if f.hung {
		next.timeouts++
	}
	next.kinds[f.kind()]++
	next.alike = next.kinds[f.kind()]
	next.news = next.alike == 1 || next.failed&(next.failed-1) == 0
	if last.usual.After(now) {
		next.due = last.usual
	} else {
		next.waits++
		next.due = now.Add(w.after(next.waits))
		if f.passes() {
			next.early = o.plugin
		}
	}
	t.failed[o.name] = next
	return next
}

// waitsFor returns the plugin whose success causes an early retry, or "".
func (t tries) waitsFor() string {
	for _, old := range t.failed {
		if old.early != "" {
			return old.early
		}
	}
	return ""
}

// retryEarly makes the calls due that wait for a plugin.
func (t tries) retryEarly(plugin string) {
	for call, old := range t.failed {
		if old.early == plugin {
			old.due, old.usual, old.early = time.Time{}, old.due, ""
			t.failed[call] = old
		}
	}
}

// shows reports whether this error replaces the one that a row shows.
func (t try) shows(shown string, f failure) bool {
	return t.news && (t.failed > 1 || shown != f.err.Error())
}

// afresh forgets how often calls failed, and keeps what they may have done and how long they take.
func (t tries) afresh() tries {
	next := newTries()
	for call, old := range t.failed {
		next.failed[call] = try{begun: true, uncertain: old.uncertain, timeouts: old.timeouts}
	}
	return next
}
