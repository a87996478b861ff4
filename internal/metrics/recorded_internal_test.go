package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func values(t *testing.T, r *Recorder) string {
	t.Helper()
	s, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range append(s.Counters, s.Samples...) {
		all = append(all, fmt.Sprint(c.Name, c.DisplayLabels, c.Count, c.Sum, c.Min, c.Max))
	}
	for _, g := range s.Gauges {
		all = append(all, fmt.Sprint(g.Name, g.Labels, g.Value))
	}
	return strings.Join(all, "\n")
}

// Series differ by each part of their names and by each label, also those beyond the length of an identity.
func TestSeriesAreKeptApart(t *testing.T) {
	t.Parallel()
	r, err := New(Config{NoHost: true, MemoryInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	labels := []Label{{Name: "a", Value: "1"}, {Name: "b", Value: "1"}, {Name: "c", Value: "1"}, {Name: "d", Value: "1"}}
	other := append(labels[:3:3], Label{Name: "d", Value: "2"})
	for range 2 {
		r.Count("calls", 2, labels...)
		r.Count("calls", 3, other...)
		r.Sample("calls", 5, labels[:1]...)
		r.Sample("calls", 7, labels[:1]...)
		r.Count("calls", 1)
		r.Count("calls", 1, labels[1:2]...)
		r.live.SetGauge([]string{"a", "b", "c", "d", "e", "f"}, 4)
		r.live.SetGauge([]string{"a", "b", "c", "d", "e", "g"}, 6)
	}
	const want = `nomad.callsmap[] 2 2 1 1
nomad.callsmap[a:1 b:1 c:1 d:1] 2 4 2 2
nomad.callsmap[a:1 b:1 c:1 d:2] 2 6 3 3
nomad.callsmap[b:1] 2 2 1 1
nomad.callsmap[a:1] 4 24 5 7
nomad.a.b.c.d.e.fmap[] 4
nomad.a.b.c.d.e.gmap[] 6`
	if got := values(t, r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.recorded.expire(time.Now().Add(expiry - time.Second))
	if got := values(t, r); got != want {
		t.Errorf("before the expiry:\n%s", got)
	}
	if r.recorded.expire(time.Now().Add(expiry + time.Second)); values(t, r) != "" || len(r.recorded.series)+len(r.recorded.own) != 0 {
		t.Errorf("after the expiry:\n%s", values(t, r))
	}
}

// The summary is of the last complete interval.
func TestSummaryIsOfTheLastInterval(t *testing.T) {
	t.Parallel()
	const interval = time.Second
	r := &recorded{interval: interval, keep: expiry, series: map[identity]*series{}, own: map[short]*series{}}
	s := r.add(identity{kind: counter}, []string{"calls"}, nil)
	now := r.number(time.Now())
	s.used, s.at, s.before, r.begun = time.Now(), now, now-1, now-10
	s.now.Count, s.last.Count = 1, 2
	var out Summary
	if r.summarize(&out); len(out.Counters) == 1 && out.Counters[0].Count == 1 && r.number(time.Now()) == now {
		t.Errorf("the summary has the interval that is not complete: %+v", out.Counters[0])
	}
	s.at, s.before = now-8, now-9
	out = Summary{}
	if r.summarize(&out); len(out.Counters) != 0 {
		t.Errorf("the summary has what is old: %+v", out.Counters)
	}
}
