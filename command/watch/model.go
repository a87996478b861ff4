package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of what a screen holds.
const (
	logMax     = 2000
	logLineMax = 4096
)

// Pauses between two reads of a screen.
const (
	settle = 300 * time.Millisecond
	again  = 2 * time.Second
)

// Messages, in addition to key presses as strings.
type (
	sizeMsg struct{ width, height int }
	tickMsg time.Time
	// loadedMsg is the result of a read. show lays out what was read as of a time.
	loadedMsg struct {
		number int
		show   func(now time.Time) content
		index  uint64
		next   string
		err    error
	}
	// logMsg is a part of a log; first is set when it is the begin of a stream.
	logMsg struct {
		number int
		text   string
		first  bool
		err    error
	}
	// doneMsg is the result of an action or a shell.
	doneMsg struct {
		text string
		err  error
	}
)

// Effects.
type (
	// loadEffect reads a screen after a pause and ends the read before.
	loadEffect struct {
		number int
		of     place
		// namespace is that of lists; * is all.
		namespace string
		filter    string
		token     string
		index     uint64
		after     time.Duration
	}
	stopEffect   struct{ of place }
	detachEffect struct{ of place }
	shellEffect  struct{ of place }
	quitEffect   struct{}
)

// screen is one entry of the history, with where its user was.
type screen struct {
	of     place
	filter string
	// tokens are the page tokens of the pages up to this one; the first page has none.
	tokens []string
	next   string
	show   func(now time.Time) content
	lines  []line
	tasks  []string
	widths map[int][]int
	// loaded is when the data was read.
	loaded         time.Time
	cursor, offset int
	moved          bool
	// follow keeps the end of a log in view.
	follow  bool
	partial string
}

// question is asked before an action.
type question struct {
	text string
	then any
}

// model is the state of the program.
type model struct {
	width, height int
	now           time.Time
	namespace     string
	all           bool
	tab           int
	stack         []*screen
	number        int
	status        string
	failed        bool
	ask           *question
	typing        *string
	help          bool
	// problem is why the last read failed, since when; refused is set when the agent has replied.
	problem string
	refused bool
	since   time.Time
	colors  bool
}

func newModel(namespace string, start place, now time.Time, colors bool) (*model, []any) {
	m := &model{namespace: namespace, all: namespace == "*", now: now, colors: colors, width: 80, height: 24}
	m.stack = []*screen{{of: place{kind: jobs}}}
	if start.kind == volume {
		m.tab, m.stack[0].of.kind = 2, volumes
	}
	if start.kind != none {
		m.stack = append(m.stack, &screen{of: start})
	}
	return m, m.load(0, 0)
}

func (m *model) top() *screen { return m.stack[len(m.stack)-1] }

// load reads the screen at the top.
func (m *model) load(index uint64, after time.Duration) []any {
	m.number++
	s := m.top()
	token := ""
	if n := len(s.tokens); n > 0 {
		token = s.tokens[n-1]
	}
	return []any{loadEffect{number: m.number, of: s.of, namespace: m.scope(), filter: s.filter, token: token, index: index, after: after}}
}

// update takes a message and returns what follows.
func (m *model) update(msg any) []any {
	switch msg := msg.(type) {
	case sizeMsg:
		m.width, m.height = max(msg.width, 0), max(msg.height, 0)
		m.layOut()
		m.scroll()
	case tickMsg:
		m.now = time.Time(msg)
		m.layOut()
	case loadedMsg:
		return m.loaded(msg)
	case logMsg:
		return m.logged(msg)
	case doneMsg:
		m.status, m.failed = msg.text, msg.err != nil
		if msg.err != nil {
			m.status = msg.err.Error()
		}
		return m.load(0, 0)
	case string:
		return m.key(msg)
	}
	return nil
}

func (m *model) loaded(msg loadedMsg) []any {
	if msg.number != m.number {
		return nil
	}
	s := m.top()
	if msg.err != nil {
		m.failedWith(msg.err)
		return m.load(0, again)
	}
	m.problem = ""
	s.show, s.next, s.loaded = msg.show, msg.next, m.now
	m.layOut()
	return m.load(msg.index, settle)
}

func (m *model) failedWith(err error) {
	if m.problem == "" {
		m.since = m.now
	}
	m.problem = err.Error()
	m.refused = !slices.Contains([]fault.Class{fault.Unavailable, fault.Timeout, fault.Internal}, fault.Of(err))
}

// logged adds a part of a log to its screen.
func (m *model) logged(msg logMsg) []any {
	s := m.top()
	if msg.number != m.number || s.of.kind != logs {
		return nil
	}
	if msg.err != nil {
		m.failedWith(msg.err)
		return m.load(0, again)
	}
	m.problem, s.loaded = "", m.now
	if msg.first {
		s.lines, s.partial, s.follow = nil, "", true
	}
	parts := strings.Split(s.partial+msg.text, "\n")
	s.partial = parts[len(parts)-1]
	if len(s.partial) > logLineMax {
		parts, s.partial = append(parts, ""), ""
	}
	for _, text := range parts[:len(parts)-1] {
		s.lines = append(s.lines, logLine(text))
	}
	if extra := len(s.lines) - logMax; extra > 0 {
		s.lines = append([]line(nil), s.lines[extra:]...)
		s.cursor, s.offset = max(s.cursor-extra, 0), max(s.offset-extra, 0)
	}
	if s.follow {
		s.cursor = len(s.lines) - 1
	}
	m.scroll()
	return nil
}

// layOut makes the lines of the screen as of now, and keeps the cursor on its object.
func (m *model) layOut() {
	s := m.top()
	if s.show == nil {
		return
	}
	var under place
	if s.moved && s.cursor < len(s.lines) {
		under = s.lines[s.cursor].of
	}
	c := s.show(m.now)
	s.lines, s.tasks = c.lines(m.width), c.tasks
	s.widths = widths(s.lines)
	switch at := s.find(under); {
	case under != place{} && at >= 0:
		s.cursor = at
	case !s.moved:
		s.cursor = s.first()
	}
	m.scroll()
}

// find returns the line of an object, or -1; the one that is closest to the cursor when there are several.
func (s *screen) find(p place) int {
	best := -1
	for i, l := range s.lines {
		if l.of == p && (best < 0 || distance(i, s.cursor) < distance(best, s.cursor)) {
			best = i
		}
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// first is the first line with an object.
func (s *screen) first() int {
	for i, l := range s.lines {
		if l.of != (place{}) {
			return i
		}
	}
	return 0
}

// object is what keys act on: the object under the cursor, or that of the screen.
func (m *model) object() place {
	s := m.top()
	if s.cursor < len(s.lines) && s.cursor >= 0 {
		if of := s.lines[s.cursor].of; of != (place{}) {
			return of
		}
	}
	return s.of
}

// scroll keeps the cursor within the lines and the view.
func (m *model) scroll() {
	s := m.top()
	s.cursor = max(min(s.cursor, len(s.lines)-1), 0)
	body := max(m.body(), 1)
	top := s.cursor
	if body > 1 && s.cursor > 0 && !s.lines[s.cursor].head && s.lines[s.cursor].table > 0 {
		top-- // the titles of the columns stay in the first line
	}
	s.offset = max(min(s.offset, top), s.cursor-body+1, 0)
	s.offset = max(min(s.offset, len(s.lines)-body), 0)
}

// say sets the line of the status.
func (m *model) say(format string, args ...any) []any {
	m.status, m.failed = fmt.Sprintf(format, args...), false
	return nil
}

// scope is the namespace of lists; * is all.
func (m *model) scope() string {
	if m.all {
		return "*"
	}
	if m.namespace == "*" {
		return api.DefaultNamespace
	}
	return m.namespace
}
