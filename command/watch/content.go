package watch

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/open-nomad/open-nomad/command/view"
)

// kind is what a screen shows.
type kind int

const (
	none kind = iota
	jobs
	allocs
	volumes
	nodes
	job
	alloc
	volume
	node
	logs
)

// tabs are the lists in the order of their keys 1 to 4.
var tabs = []struct {
	kind kind
	name string
}{{jobs, "Jobs"}, {allocs, "Allocations"}, {volumes, "Volumes"}, {nodes, "Nodes"}}

// place identifies a screen, or the object of a row.
type place struct {
	kind          kind
	namespace, id string
	// task is that of logs and of the row of a task.
	task string
	// node is the node of the row of a claim or attachment, claim distinguishes claims of one node.
	node, claim string
	// stderr selects the log.
	stderr bool
}

func (p place) list() bool { return p.kind >= jobs && p.kind <= nodes }

func (p place) name() string {
	text := map[kind]string{job: "job", alloc: "allocation", volume: "volume", node: "node", logs: "log of"}[p.kind] + " " + view.Inline(p.id)
	if p.task != "" {
		text += " task " + view.Inline(p.task)
	}
	if p.kind == logs && p.stderr {
		return text + " stderr"
	} else if p.kind == logs {
		return text + " stdout"
	}
	return text
}

// mood is how much a row needs attention.
type mood int

const (
	calm mood = iota
	waiting
	failing
)

// row is one object in a table.
type row struct {
	cells []string
	// of is the object that keys act on, and that enter opens if it is not the screen's own.
	of   place
	mood mood
}

// section is a table with a title.
type section struct {
	title   string
	columns []string
	rows    []row
}

// content is what a screen shows: facts, then tables.
type content struct {
	facts    [][2]string
	sections []section
	// empty is shown when there is nothing else.
	empty string
	// tasks are the names of the tasks of an allocation.
	tasks []string
}

// line is one line of a screen.
type line struct {
	cells []string
	text  string
	// table is the number of the section, from 1; lines outside of tables have 0. Lines of a table align.
	table int
	head  bool
	of    place
	mood  mood
}

// lines flattens the content for a width. Texts are escaped; facts are wrapped.
func (c content) lines(screen int) []line {
	var out []line
	width := 0
	for _, f := range c.facts {
		width = max(width, len(f[0]))
	}
	for _, f := range c.facts {
		for i, part := range strings.Split(strings.TrimRight(f[1], "\n"), "\n") {
			name := f[0]
			for n, text := range wrapped(view.Inline(part), screen-width-3) {
				if i+n > 0 {
					name = ""
				}
				out = append(out, line{text: name + strings.Repeat(" ", width-len(name)) + "  " + text})
			}
		}
	}
	for n, s := range c.sections {
		if len(out) > 0 {
			out = append(out, line{})
		}
		if s.title != "" {
			out = append(out, line{text: s.title, head: true})
		}
		out = append(out, line{cells: s.columns, table: n + 1, head: true})
		for _, r := range s.rows {
			cells := make([]string, len(r.cells))
			for i, cell := range r.cells {
				cells[i] = view.Line(cell)
			}
			out = append(out, line{cells: cells, table: n + 1, of: r.of, mood: r.mood})
		}
	}
	if len(out) == 0 {
		return []line{{text: c.empty}}
	}
	return out
}

// wrapped breaks a text into lines of a width, between words where that is possible.
func wrapped(text string, width int) []string {
	const least = 10
	return strings.Split(ansi.Wrap(text, max(width, least), " /,"), "\n")
}

// age is the time since a moment in Unix nanoseconds.
func age(ns int64, now time.Time) string {
	if ns <= 0 {
		return ""
	}
	return strings.TrimSuffix(view.Ago(ns, now), " ago")
}
