package watch

import (
	"unicode"
	"unicode/utf8"
)

// filterMax bounds the length of a filter in bytes.
const filterMax = 128

// key handles a key press, by bubbletea's name of the key.
func (m *model) key(k string) []any {
	switch {
	case k == "ctrl+c":
		return []any{quitEffect{}}
	case m.ask != nil:
		return m.reply(k)
	case m.typing != nil:
		return m.typed(k)
	case m.help:
		m.help = false
		return nil
	}
	m.status = ""
	s := m.top()
	switch k {
	case "q":
		return []any{quitEffect{}}
	case "esc", "left", "backspace", "h":
		return m.back()
	case "enter", "right":
		return m.open()
	case "tab", "shift+tab", "1", "2", "3", "4":
		return m.choose(k)
	case "n", "]":
		return m.page(1)
	case "p", "[":
		return m.page(-1)
	case "a":
		return m.everywhere()
	case "/":
		if !s.of.list() {
			return m.say("filters are for lists: esc goes back to one")
		}
		text := s.filter
		m.typing = &text
	case "?":
		m.help = true
	case "r":
		return m.load(0, 0)
	case "l", "s", "x", "d", "e":
		return m.act(k)
	default:
		m.move(k)
	}
	return nil
}

// move moves the cursor.
func (m *model) move(k string) {
	s := m.top()
	page := max(m.body()-2, 1)
	step, known := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "space": page, "home": -len(s.lines), "g": -len(s.lines), "end": len(s.lines), "G": len(s.lines)}[k]
	if !known {
		return
	}
	s.moved = true
	s.cursor += step
	// Titles and empty lines are passed by.
	for way := max(min(step, 1), -1); s.cursor > 0 && s.cursor < len(s.lines)-1 && s.of.kind != logs && (s.lines[s.cursor].head || s.lines[s.cursor].empty()); {
		s.cursor += way
	}
	m.scroll()
	s.follow = s.cursor >= len(s.lines)-1
}

func (l line) empty() bool { return l.text == "" && len(l.cells) == 0 }

func (m *model) back() []any {
	s := m.top()
	switch {
	case len(m.stack) > 1:
		m.stack = m.stack[:len(m.stack)-1]
	case s.filter != "":
		m.stack = []*screen{{of: s.of}}
	default:
		return m.say("q quits, tab shows the next list")
	}
	m.layOut()
	return m.load(0, 0)
}

// open shows the object under the cursor.
func (m *model) open() []any {
	of, now := m.object(), m.top().of
	of.node, of.claim = "", ""
	if of.kind == now.kind && of.id == now.id && of.namespace == now.namespace {
		if of.task == "" || now.kind == logs {
			return nil
		}
		return m.push(place{kind: logs, namespace: of.namespace, id: of.id, task: of.task})
	}
	of.task = ""
	return m.push(of)
}

func (m *model) push(of place) []any {
	const depth = 32
	if of.kind == none || len(m.stack) >= depth {
		return nil
	}
	m.stack = append(m.stack, &screen{of: of})
	return m.load(0, 0)
}

func (m *model) choose(k string) []any {
	switch k {
	case "tab":
		m.tab = (m.tab + 1) % len(tabs)
	case "shift+tab":
		m.tab = (m.tab + len(tabs) - 1) % len(tabs)
	default:
		m.tab = int(k[0] - '1')
	}
	m.stack = []*screen{{of: place{kind: tabs[m.tab].kind}}}
	return m.load(0, 0)
}

func (m *model) page(by int) []any {
	s := m.top()
	switch {
	case by > 0 && s.next != "":
		s.tokens = append(s.tokens, s.next)
	case by < 0 && len(s.tokens) > 0:
		s.tokens = s.tokens[:len(s.tokens)-1]
	case by > 0:
		return m.say("this is the last page")
	default:
		return m.say("this is the first page")
	}
	s.cursor, s.offset, s.moved, s.next = 0, 0, false, ""
	return m.load(0, 0)
}

// everywhere shows lists of all namespaces, or of one again.
func (m *model) everywhere() []any {
	m.all = !m.all
	m.stack = []*screen{{of: m.stack[0].of, filter: m.stack[0].filter}}
	return m.load(0, 0)
}

// typed edits the filter.
func (m *model) typed(k string) []any {
	text := *m.typing
	switch {
	case k == "esc":
		m.typing = nil
	case k == "enter":
		s := m.top()
		m.typing = nil
		m.stack[len(m.stack)-1] = &screen{of: s.of, filter: text}
		return m.load(0, 0)
	case k == "backspace":
		_, size := utf8.DecodeLastRuneInString(text)
		*m.typing = text[:len(text)-size]
	case k == "ctrl+u":
		*m.typing = ""
	case k == "space":
		*m.typing += " "
	case utf8.RuneCountInString(k) == 1 && unicode.IsPrint([]rune(k)[0]) && len(text)+len(k) <= filterMax:
		*m.typing += k
	}
	return nil
}

// reply handles the reply to a question.
func (m *model) reply(k string) []any {
	then := m.ask.then
	m.ask = nil
	if k != "y" && k != "Y" {
		return m.say("nothing was done")
	}
	m.say("working ...")
	return []any{then}
}

// act handles the keys of actions.
func (m *model) act(k string) []any {
	of := m.object()
	if k == "e" {
		s := m.top()
		if s.of.kind != logs {
			return m.say("e switches between stdout and stderr of a log")
		}
		s.of.stderr = !s.of.stderr
		s.lines = nil
		return m.load(0, 0)
	}
	switch {
	case k == "x" && of.kind == job:
		m.ask = &question{"Stop " + of.name() + "? [y/N]", stopEffect{of}}
	case k == "x" && (of.kind == alloc || of.kind == logs):
		of.task = ""
		of.kind = alloc
		m.ask = &question{"Stop " + of.name() + "? Its job may replace it. [y/N]", stopEffect{of}}
	case k == "x":
		return m.say("x stops a job or an allocation: move to one")
	case k == "d" && of.kind == volume && of.node != "":
		m.ask = &question{"Detach " + of.name() + " from node " + short(of.node) + "? [y/N]", detachEffect{of}}
	case k == "d":
		return m.say("d detaches a volume: open it and move to a claim or an attachment")
	case of.kind != alloc && of.kind != logs:
		return m.say("move to an allocation or a task")
	default:
		if of.task == "" {
			of.task = m.onlyTask(of)
		}
		if k == "s" {
			return []any{shellEffect{of}}
		}
		if m.top().of.kind == logs {
			return nil
		}
		of.kind = logs
		return m.push(of)
	}
	return nil
}

// onlyTask is the first task of the allocation that the screen shows; empty if the screen does not show its tasks.
func (m *model) onlyTask(of place) string {
	if s := m.top(); s.of.kind == alloc && s.of.id == of.id && len(s.tasks) > 0 {
		return s.tasks[0]
	}
	return ""
}
