package reconciler

import "time"

// tries remembers the calls of a key that failed, by intent.
type tries map[string]try

// try is what is known of a call that failed.
type try struct {
	// failed counts the tries, alike those that failed like the last one, and timeouts those that reached their bound.
	failed, alike, timeouts int
	kinds                   map[string]int
	// news is set when the call fails in another way than before, and from time to time: a call that keeps
	// failing must not fill the log, whatever its driver's texts are.
	news bool
	// uncertain is set once one of the tries may have had its effect.
	uncertain bool
	due       time.Time
}

// wait is how long to wait between tries: from min, doubled each time up to max, give or take a quarter.
type wait struct {
	min, max time.Duration
	// chance returns a random duration below the given one.
	chance func(time.Duration) time.Duration
}

func (w wait) after(failed int) time.Duration {
	d := w.min
	for i := 1; i < failed && d < w.max; i++ {
		d *= 2
	}
	d = min(d, w.max)
	return d*3/4 + w.chance(d/2+1)
}

// failed notes a failure and when the next try is due.
func (t tries) failed(call string, f failure, now time.Time, w wait) try {
	last := t[call]
	next := try{failed: last.failed + 1, timeouts: last.timeouts, kinds: last.kinds, uncertain: last.uncertain || f.uncertain}
	if next.kinds == nil {
		next.kinds = map[string]int{}
	}
	if f.hung {
		next.timeouts++
	}
	next.kinds[f.kind()]++
	next.alike = next.kinds[f.kind()]
	next.news = next.alike == 1 || next.failed&(next.failed-1) == 0
	next.due = now.Add(w.after(next.failed))
	t[call] = next
	return next
}

// shows reports whether a row that shows an error shall show this one instead.
func (t try) shows(shown string, f failure) bool {
	return t.news && (t.failed > 1 || shown != f.err.Error())
}

// afresh forgets how often calls failed, and keeps what they may have done and how long they take.
func (t tries) afresh() tries {
	next := tries{}
	for call, old := range t {
		if old.uncertain || old.timeouts > 0 {
			next[call] = try{uncertain: old.uncertain, timeouts: old.timeouts}
		}
	}
	return next
}
