package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/open-nomad/open-nomad/command/view"
)

// Widths of columns.
const (
	gap       = 2
	cellMax   = 44
	lastMax   = 400
	cellLeast = 4
)

// chrome is how many lines are above and below the body: fewer on small screens.
func (m *model) chrome() (above, below int) {
	switch {
	case m.height >= 8:
		above, below = 2, 2
	case m.height >= 4:
		above, below = 1, 1
	case m.height >= 2:
		below = 1
	}
	return above, below
}

// body is how many lines of the screen are shown.
func (m *model) body() int {
	above, below := m.chrome()
	return max(m.height-above-below-max(len(m.statusLines())-1, 0), 0)
}

// titleMax bounds the width of one name in the title.
const titleMax = 34

// statusMax bounds the lines of the status.
const statusMax = 4

// view draws the model: at most height lines of at most width cells.
func (m *model) view() string {
	above, below := m.chrome()
	var out []string
	if above > 0 {
		out = append(out, m.tabLine())
	}
	if above > 1 {
		out = append(out, m.titleLine())
	}
	shown := m.bodyLines()
	for i := range m.body() {
		text := ""
		if i < len(shown) {
			text = shown[i]
		}
		out = append(out, text)
	}
	if below > 0 {
		out = append(out, m.statusLines()...)
	}
	if below > 1 {
		out = append(out, faint(m.hints()))
	}
	for i := range out {
		out[i] = ansi.Truncate(out[i], m.width, "")
	}
	return strings.Join(out[:min(len(out), m.height)], "\n")
}

func (m *model) tabLine() string {
	var parts []string
	for i, t := range tabs {
		name := fmt.Sprintf(" %d %s ", i+1, t.name)
		if i == m.tab {
			name = ansi.NewStyle().Reverse(true).Styled(name)
		}
		parts = append(parts, name)
	}
	scope := "namespace " + view.Inline(m.scope())
	if m.all {
		scope = "all namespaces"
	}
	return strings.Join(parts, " ") + "   " + faint(scope)
}

func (m *model) titleLine() string {
	s := m.top()
	var parts []string
	for _, above := range m.stack[1:] {
		parts = append(parts, fitted(above.of.name(), titleMax))
	}
	text := strings.Join(parts, " > ")
	if s.of.list() {
		text = fmt.Sprintf("page %d", len(s.tokens)+1)
		if s.next != "" {
			text += ", n for the next"
		}
		if s.filter != "" {
			text = "filter " + view.Inline(s.filter) + "   " + text
		}
	}
	return bold(fitted(text, m.width))
}

// statusLines are a question, an error, a result, or the whole text of a row that is cut: at least one line.
func (m *model) statusLines() []string {
	text, style := view.Inline(m.status), func(s string) string { return s }
	red := func(s string) string { return m.paint(s, failing) }
	switch {
	case m.ask != nil:
		text, style = m.ask.text, bold
	case m.typing != nil:
		text, style = "/"+view.Inline(*m.typing)+"_", bold
	case m.problem != "":
		text, style = m.trouble(), red
	case m.status != "" && m.failed:
		style = red
	case m.status == "" && !m.help:
		text, style = m.cut(), faint
	}
	lines := wrapped(text, m.width)
	if most := min(statusMax, max(m.height/4, 1)); len(lines) > most {
		lines = lines[:most]
		lines[most-1] = fitted(lines[most-1]+"…", m.width)
	}
	for i := range lines {
		lines[i] = style(lines[i])
	}
	return lines
}

// trouble describes why the last read failed, and how old the data is.
func (m *model) trouble() string {
	text := "no reply for " + age(m.since.UnixNano(), m.now)
	if m.refused {
		text = "refused"
	}
	if loaded := m.top().loaded; !loaded.IsZero() {
		text += ", data of " + age(loaded.UnixNano(), m.now) + " ago"
	}
	return text + ": " + view.Inline(m.problem)
}

// cut is the line of a log or the last cell of the row under the cursor if the screen is too narrow for it.
func (m *model) cut() string {
	s := m.top()
	if s.cursor >= len(s.lines) {
		return ""
	}
	l := s.lines[s.cursor]
	if ansi.StringWidth(l.text) > m.width-1 {
		return l.text
	}
	if len(l.cells) == 0 {
		return ""
	}
	last := len(l.cells) - 1
	if ansi.StringWidth(l.cells[last]) <= shrink(s.widths[l.table], m.width-1)[last] {
		return ""
	}
	return l.cells[last]
}

func (m *model) hints() string {
	s := m.top()
	switch {
	case m.help:
		return "any key closes the help"
	case s.of.kind == logs:
		return "esc back  e stdout/stderr  s shell  end follow  ? help  q quit"
	case s.of.kind == volume:
		return "esc back  enter open  d detach  ? help  q quit"
	case s.of.list():
		return "enter open  / filter  tab list  x stop  l log  s shell  ? help  q quit"
	}
	return "esc back  enter open  l logs  s shell  x stop  ? help  q quit"
}

const helpText = `up down j k   move               enter   open
pgup pgdown   move a page        esc     back
home end g G  first, last        tab 1-4 another list
n p           next page of a list, previous page
/             filter a list: text that a name or id contains
a             all namespaces, or one
l             log of the allocation or task; e switches to stderr
s             shell (/bin/sh) in the task; ~. after a line feed ends it
x             stop the job or allocation; asks first
d             detach the volume of the claim or attachment; asks first
r             read again now
q ctrl-c      quit`

func (m *model) bodyLines() []string {
	if m.help {
		return strings.Split(helpText, "\n")
	}
	s := m.top()
	if len(s.lines) == 0 {
		switch {
		case s.of.kind == logs && !s.loaded.IsZero():
			return []string{faint("no output yet")}
		case m.problem != "":
			return nil
		}
		return []string{faint("reading ...")}
	}
	fit := map[int][]int{}
	for n, w := range s.widths {
		fit[n] = shrink(w, m.width-1)
	}
	var out []string
	for i := s.offset; i < min(s.offset+m.body(), len(s.lines)); i++ {
		l := s.lines[i]
		if i == s.offset && l.table > 0 && !l.head && i != s.cursor {
			// The titles of the columns stay in sight.
			l = s.lines[slices.IndexFunc(s.lines, func(h line) bool { return h.head && h.table == l.table })]
		}
		out = append(out, m.drawn(l, fit[l.table], i == s.cursor))
	}
	return out
}

// drawn is a line of the body. The cursor is a mark and reversed, so that it shows without colours.
func (m *model) drawn(l line, widths []int, under bool) string {
	text := l.text
	if len(l.cells) > 0 {
		var b strings.Builder
		for i, cell := range l.cells {
			cell = ansi.Truncate(cell, widths[i], "…")
			b.WriteString(cell)
			if i < len(l.cells)-1 {
				b.WriteString(strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cell), 0)+gap))
			}
		}
		text = b.String()
	}
	mark := " "
	if under {
		mark = ">"
	}
	text = fitted(mark+text, m.width)
	switch {
	case under:
		return ansi.NewStyle().Reverse(true).Styled(text + strings.Repeat(" ", max(m.width-ansi.StringWidth(text), 0)))
	case l.head:
		return bold(text)
	}
	return m.paint(text, l.mood)
}

// widths are the natural widths of the columns by table.
func widths(lines []line) map[int][]int {
	out := map[int][]int{}
	for _, l := range lines {
		for i, cell := range l.cells {
			w := out[l.table]
			if i == len(w) {
				w = append(w, 0)
			}
			most := cellMax
			if i == len(l.cells)-1 {
				most = lastMax
			}
			w[i] = max(w[i], min(ansi.StringWidth(cell), most))
			out[l.table] = w
		}
	}
	return out
}

// shrink narrows the widest columns until all fit.
func shrink(natural []int, width int) []int {
	w := slices.Clone(natural)
	for sum(w)+gap*(len(w)-1) > width {
		widest := 0
		for i := range w {
			if w[i] > w[widest] {
				widest = i
			}
		}
		if w[widest] <= cellLeast {
			break
		}
		w[widest]--
	}
	return w
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// fitted cuts a text without sequences to a width.
func fitted(text string, width int) string { return ansi.Truncate(text, max(width, 0), "…") }

func bold(text string) string  { return ansi.NewStyle().Bold().Styled(text) }
func faint(text string) string { return ansi.NewStyle().Faint().Styled(text) }

// paint colours what needs attention.
func (m *model) paint(text string, how mood) string {
	if !m.colors || text == "" {
		return text
	}
	switch how {
	case waiting:
		return ansi.NewStyle().ForegroundColor(ansi.Yellow).Styled(text)
	case failing:
		return ansi.NewStyle().ForegroundColor(ansi.Red).Styled(text)
	}
	return text
}

// short is the begin of an id.
func short(id string) string { return view.Inline(view.ID(id, false)) }

// logLine is a line of a log as it is shown.
func logLine(text string) line {
	text = strings.TrimSuffix(text, "\r")
	if len(text) > logLineMax {
		text = text[:logLineMax] + " ..."
	}
	return line{text: view.Inline(text)}
}
