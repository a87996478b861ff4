package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

var begin = time.Unix(1_700_000_000, 0)

// started is a model that shows n jobs.
func started(t *testing.T, n int) *model {
	t.Helper()
	m, first := newModel("default", place{}, begin, true)
	reads(t, first, place{kind: jobs})
	var list []*api.JobStub
	for i := range n {
		list = append(list, &api.JobStub{ID: fmt.Sprintf("job%d", i), Namespace: "default", Type: "service", Status: "running", SubmitTime: begin.UnixNano()})
	}
	m.update(loadedMsg{number: m.number, show: func(now time.Time) content { return jobList(list, false, now) }, index: 7})
	return m
}

// reads returns the one read among effects, which must be of a place.
func reads(t *testing.T, effects []any, of place) loadEffect {
	t.Helper()
	if len(effects) != 1 {
		t.Fatalf("effects %v, want one read of %v", effects, of)
	}
	e, ok := effects[0].(loadEffect)
	if !ok || e.of != of {
		t.Fatalf("effect %+v, want a read of %v", effects[0], of)
	}
	return e
}

func press(m *model, keys ...string) (effects []any) {
	for _, k := range keys {
		effects = m.update(k)
	}
	return effects
}

func showing(t *testing.T, m *model, texts ...string) {
	t.Helper()
	screen := ansi.Strip(m.view())
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			t.Errorf("the screen lacks %q:\n%s", text, screen)
		}
	}
}

func TestEnterOpensTheObjectUnderTheCursor(t *testing.T) {
	m := started(t, 3)
	of := place{kind: job, namespace: "default", id: "job1"}
	reads(t, press(m, "down", "enter"), of)
	showing(t, m, "job job1", "reading ...")
	m.update(loadedMsg{number: m.number, show: func(now time.Time) content {
		return content{sections: []section{allocSection("Allocations", []*api.AllocStub{{ID: "aaaaaaaaaa", Namespace: "default", JobID: "job1", ClientStatus: "running"}}, false, now)}}
	}})
	reads(t, press(m, "enter"), place{kind: alloc, namespace: "default", id: "aaaaaaaaaa"})
	reads(t, press(m, "esc"), of)
	reads(t, press(m, "esc"), place{kind: jobs})
	if got := m.object().id; got != "job1" {
		t.Errorf("the cursor is on %q after the way back", got)
	}
}

func TestReadsFollowChangesAndIgnoreWhatIsLate(t *testing.T) {
	m := started(t, 1)
	late := m.number
	e := reads(t, m.update(loadedMsg{number: m.number, show: func(time.Time) content { return content{empty: "none"} }, index: 9}), place{kind: jobs})
	if e.index != 9 || e.after != settle {
		t.Errorf("the next read waits for a change after index %d with a pause of %s", e.index, e.after)
	}
	if effects := m.update(loadedMsg{number: late, show: func(time.Time) content { return content{empty: "LATE"} }}); effects != nil {
		t.Errorf("a late result is followed by %v", effects)
	}
	showing(t, m, "none")
}

func TestFilterIsSentToTheServer(t *testing.T) {
	m := started(t, 2)
	press(m, "/", "w", "e", "x", "backspace", "b", "space", "q")
	showing(t, m, "/web q_")
	if e := reads(t, press(m, "enter"), place{kind: jobs}); e.filter != "web q" {
		t.Errorf("filter %q", e.filter)
	}
	showing(t, m, "filter web q")
	if e := reads(t, press(m, "esc"), place{kind: jobs}); e.filter != "" {
		t.Errorf("esc keeps the filter %q", e.filter)
	}
	for range 300 {
		press(m, "/", "x", "enter", "/", "y")
		press(m, "esc")
	}
	if got := contains("a\"b`", "ID", "Name"); got != "ID contains `a\"b` or Name contains `a\"b`" {
		t.Errorf("filter expression %s", got)
	}
}

func TestPagesAreHeldOneAtATime(t *testing.T) {
	m := started(t, 2)
	m.update(loadedMsg{number: m.number, show: m.top().show, next: "t2"})
	if e := reads(t, press(m, "n"), place{kind: jobs}); e.token != "t2" || e.index != 0 {
		t.Errorf("page 2 is read with token %q, index %d", e.token, e.index)
	}
	showing(t, m, "page 2")
	m.update(loadedMsg{number: m.number, show: m.top().show})
	press(m, "n")
	showing(t, m, "this is the last page")
	if e := reads(t, press(m, "p"), place{kind: jobs}); e.token != "" {
		t.Errorf("page 1 is read with token %q", e.token)
	}
}

func TestActionsAskFirst(t *testing.T) {
	m := started(t, 2)
	if effects := press(m, "x"); effects != nil {
		t.Fatalf("x does %v without a question", effects)
	}
	showing(t, m, "Stop job job0? [y/N]")
	if effects := press(m, "n"); effects != nil {
		t.Fatalf("no does %v", effects)
	}
	showing(t, m, "nothing was done")
	want := stopEffect{place{kind: job, namespace: "default", id: "job0"}}
	if effects := press(m, "x", "y"); len(effects) != 1 || effects[0] != want {
		t.Fatalf("yes does %v", effects)
	}
	m.update(doneMsg{err: errors.New("Unexpected response code: 403 (Permission denied)")})
	showing(t, m, "403 (Permission denied)")
	press(m, "d")
	showing(t, m, "d detaches a volume")
}

func TestDetachNamesVolumeAndNode(t *testing.T) {
	m, _ := newModel("default", place{kind: volume, namespace: "default", id: "data"}, begin, false)
	v := &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data", Namespace: "default"}}, Claims: []*api.VolumeClaim{
		{AllocID: "a1", NodeID: "node1", JobID: "web", State: api.ClaimReady, Mode: api.ClaimWrite},
		{AllocID: "a2", NodeID: "node1", JobID: "next", State: api.ClaimWaiting, Predecessor: "a1", Since: begin.Add(-time.Minute).UnixNano(), NextRetry: begin.Add(time.Minute).UnixNano()},
	}}
	found := []*api.StorageFinding{{Severity: "warning", Text: "held by a lost node", Command: "nomad volume detach -force data node1", Next: "the lease ends"}}
	m.update(loadedMsg{number: m.number, show: func(now time.Time) content { return volumeDetail(v, found, nil, now) }})
	showing(t, m, "waiting for a1", "1m", "next try in 1m", "nomad volume detach -force data node1", "the lease ends")
	press(m, "down", "d")
	effects := press(m, "y")
	if len(effects) != 1 {
		t.Fatalf("effects %v", effects)
	}
	if e, ok := effects[0].(detachEffect); !ok || e.of.id != "data" || e.of.node != "node1" {
		t.Errorf("effect %+v", effects[0])
	}
}

func TestServerAwayKeepsTheData(t *testing.T) {
	m := started(t, 1)
	e := reads(t, m.update(loadedMsg{number: m.number, err: fault.New(fault.Unavailable, "reach agent at x: refused")}), place{kind: jobs})
	if e.after == 0 {
		t.Error("the next read follows without a pause")
	}
	m.update(tickMsg(begin.Add(12 * time.Second)))
	showing(t, m, "job0", "no reply for 12s, data of 12s ago: reach agent at x: refused")
	m.update(loadedMsg{number: m.number, show: m.top().show})
	if screen := m.view(); strings.Contains(screen, "no reply") {
		t.Errorf("the banner stays:\n%s", screen)
	}
	m.update(loadedMsg{number: m.number, err: fault.New(fault.Denied, "Permission denied")})
	showing(t, m, "refused, data of 0s ago: Permission denied")
}

func TestLogsAreBoundedAndFollowed(t *testing.T) {
	m := started(t, 1)
	m.stack = append(m.stack, &screen{of: place{kind: logs, id: "a"}})
	m.load(0, 0)
	m.update(logMsg{number: m.number, first: true})
	m.update(logMsg{number: m.number, text: "half"})
	m.update(logMsg{number: m.number, text: " line\n" + strings.Repeat("x\n", 3*logMax) + "last\nnot yet"})
	s := m.top()
	if len(s.lines) != logMax {
		t.Errorf("%d lines are held", len(s.lines))
	}
	showing(t, m, ">last")
	press(m, "up")
	m.update(logMsg{number: m.number, text: ", now\nmore\n"})
	showing(t, m, ">x")
	press(m, "end")
	showing(t, m, "not yet, now", ">more")
	m.update(logMsg{number: m.number, text: strings.Repeat("y", 100*logLineMax)})
	if len(s.partial) > logLineMax {
		t.Errorf("%d bytes of one line are held", len(s.partial))
	}
}

// TestEverySizeFits draws all screens at all sizes: no panic, nothing beyond the edges, no sequence of a name.
func TestEverySizeFits(t *testing.T) {
	evil := "\x1b[2Jevil\n\u202eabc\u009b31m\u2028" + strings.Repeat("größe世界", 30)
	stubs := []*api.AllocStub{{ID: evil, JobID: evil, TaskGroup: evil, NodeName: evil, ClientStatus: "failed", TaskStates: map[string]*api.TaskState{evil: {Failed: true, Events: []*api.TaskEvent{{Type: evil, DisplayMessage: evil}}}, "nil": nil}}}
	detail := &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: evil, PluginID: evil}}, Claims: []*api.VolumeClaim{{JobID: evil, LastError: evil, State: api.ClaimReleasing}}, Allocations: stubs, LastError: evil}
	findings := []*api.StorageFinding{{VolumeID: evil, Text: evil, Command: evil, Next: evil, Severity: "error"}}
	contents := map[kind]func(time.Time) content{
		jobs: func(now time.Time) content {
			return jobList([]*api.JobStub{{ID: evil, Type: evil, Status: evil, StatusDescription: evil}, {ID: "x"}}, true, now)
		},
		allocs: func(now time.Time) content { return allocList(stubs, true, now) },
		volumes: func(now time.Time) content {
			return volumeList([]*api.VolumeStub{{ID: evil}, {ID: "gone"}}, []*api.VolumeDetail{detail, nil}, findings, true, now)
		},
		nodes: func(time.Time) content {
			return nodeList([]*api.NodeStub{{Name: evil, StatusDescription: evil, Drivers: map[string]*api.DriverInfo{evil: {Detected: true, HealthDescription: evil}}}})
		},
		job: func(now time.Time) content {
			return jobDetail(&api.Job{ID: evil, StatusDescription: evil}, &api.JobSummary{Summary: map[string]api.TaskGroupSummary{evil: {Queued: 1}}}, &api.Deployment{StatusDescription: evil, TaskGroups: map[string]*api.DeploymentState{evil: {}}},
				[]*api.Evaluation{{FailedTGAllocs: map[string]*api.AllocationMetric{evil: {QuotaExhausted: []string{evil}}}}}, stubs, []*api.JobStub{{ID: evil}}, now)
		},
		alloc: func(now time.Time) content {
			return allocation(&api.Allocation{ID: evil, JobID: evil, ClientDescription: evil, TaskStates: stubs[0].TaskStates}, now)
		},
		volume: func(now time.Time) content {
			return volumeDetail(detail, findings, []*api.VolumeEvent{{What: evil, Text: evil, Took: 1}}, now)
		},
		node: func(now time.Time) content {
			return nodeDetail(&api.Node{Name: evil, ID: evil, StatusDescription: evil}, stubs, now)
		},
		logs: nil,
	}
	for of, show := range contents {
		m, _ := newModel("default", place{kind: of, namespace: evil, id: evil, task: evil}, begin, true)
		if show == nil {
			m.update(logMsg{number: m.number, first: true, text: evil + "\n" + evil + "\n"})
		} else {
			m.update(loadedMsg{number: m.number, show: show})
		}
		for _, width := range []int{0, 1, 2, 5, 20, 79, 80} {
			for _, height := range []int{0, 1, 2, 4, 8, 24} {
				for _, keys := range [][]string{{"end"}, {"home"}, {"?"}, {"?", "x"}, {"n"}, {"down", "pgdown", "up"}, {"/", evil}, {"esc"}, {"d"}, {"esc"}} {
					m.update(sizeMsg{width, height})
					for _, k := range keys {
						if m.stack[len(m.stack)-1].of.kind == of || k != "esc" {
							m.update(k)
						}
					}
					fits(t, m.view(), width, height)
				}
				m.update(doneMsg{err: errors.New(evil)})
				fits(t, m.view(), width, height)
				if len(m.stack) < 2 {
					m.stack = append(m.stack, &screen{of: place{kind: of}})
				}
				if show != nil {
					m.update(loadedMsg{number: m.number, show: show})
				}
			}
		}
	}
}

func fits(t *testing.T, screen string, width, height int) {
	t.Helper()
	lines := strings.Split(screen, "\n")
	if screen != "" && len(lines) > height {
		t.Fatalf("%d lines on a screen of %d", len(lines), height)
	}
	for _, l := range lines {
		if w := ansi.StringWidth(l); w > width {
			t.Fatalf("a line of %d cells on a screen of %d: %q", w, width, l)
		}
		for _, r := range ansi.Strip(l) {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%U in %q", r, l)
			}
		}
		if strings.Contains(l, "\x1b[2J") {
			t.Fatalf("the sequence of a name in %q", l)
		}
	}
}

func TestWithoutColoursNoneAreDrawn(t *testing.T) {
	m := started(t, 1)
	m.colors = false
	m.update(loadedMsg{number: m.number, err: fault.New(fault.Unavailable, "away")})
	if screen := m.view(); strings.Contains(screen, "\x1b[31m") || strings.Contains(screen, "\x1b[33m") {
		t.Errorf("colours in %q", screen)
	}
}
