package tasks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// parse reads rows like "main:running web:pending:hook=prestart,sidecar,leader,open,ran,failed,ending".
func parse(text string) []row {
	var out []row
	for _, f := range strings.Fields(text) {
		parts := strings.SplitN(f, ":", 3)
		r := row{name: parts[0], state: parts[1]}
		if len(parts) == 3 {
			for _, flag := range strings.Split(parts[2], ",") {
				switch flag {
				case "prestart", "poststart", "poststop":
					r.hook = flag
				case "sidecar":
					r.sidecar = true
				case "leader":
					r.leader = true
				case "failed":
					r.failed = true
				case "ending":
					r.ending = true
				case "open":
					r.opened = true
				case "ran":
					r.started = true
				}
			}
		}
		if r.state == "running" {
			r.opened, r.started = true, true
		}
		out = append(out, r)
	}
	return out
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		rows     string
		stopping bool
		want     string
	}{
		{"a:pending b:pending", false, "open a b"},
		{"a:running b:pending:open", false, ""},
		{"pre:pending:prestart m:pending", false, "open pre"},
		{"pre:running:prestart m:pending", false, ""},
		{"pre:dead:prestart m:pending", false, "open m"},
		{"pre:dead:prestart,failed m:pending", false, "end m(Sibling Task Failed pre)"},
		{"side:running:prestart,sidecar m:pending", false, "open m"},
		{"side:pending:prestart,sidecar,open,ran m:pending", false, "open m"},
		{"m:pending:open post:pending:poststart", false, ""},
		{"m:running post:pending:poststart", false, "open post"},
		{"m:running stop:pending:poststop", false, ""},
		{"m:dead stop:pending:poststop", false, "open stop"},
		{"m:dead side:running:prestart,sidecar stop:pending:poststop", false, "open stop end side(Main Tasks Dead)"},
		{"m:dead n:running", false, ""},
		{"m:dead:failed n:running side:running:prestart,sidecar", false, "end n(Sibling Task Failed m)"},
		{"m:dead:failed n:dead side:running:prestart,sidecar", false, "end side(Sibling Task Failed m)"},
		{"l:dead:leader n:running", false, "end n(Leader Task Dead)"},
		{"l:running:leader n:running", true, "end l(Killing)"},
		{"l:running:leader,ending n:running", true, ""},
		{"l:dead:leader n:running p:pending side:running:poststart,sidecar", true, "end n(Killing) p(Killing)"},
		{"n:running:ending p:dead side:running:poststart,sidecar", true, ""},
		{"n:dead side:running:poststart,sidecar stop:pending:poststop", true, "open stop end side(Killing)"},
		{"n:dead stop:running:poststop", true, ""},
		{"n:running stop:running:poststop", true, "end n(Killing) stop(Killing)"}, // it was a main task
		{"n:running stop:pending:poststop", true, "end n(Killing)"},
		{"n:dead stop:dead:poststop,failed", false, ""},
	} {
		got := order(parse(c.rows), c.stopping)
		var words []string
		if len(got.open) > 0 {
			words = append(words, "open "+strings.Join(got.open, " "))
		}
		if len(got.end) > 0 {
			words = append(words, "end")
		}
		for _, n := range slices.Sorted(maps.Keys(got.end)) {
			words = append(words, fmt.Sprintf("%s(%s)", n, strings.TrimSpace(got.end[n].event+" "+got.end[n].sibling)))
		}
		if s := strings.Join(words, " "); s != c.want {
			t.Errorf("%s (stopping %v): got %q, want %q", c.rows, c.stopping, s, c.want)
		}
	}
}
