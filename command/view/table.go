package view

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is what stands between two columns.
const gap = "  "

// Line is the first line of a text, with " ..." when there is more.
func Line(s string) string {
	first, rest, _ := strings.Cut(strings.Trim(s, "\r\n"), "\n")
	first = strings.TrimRight(first, "\r")
	if strings.TrimSpace(rest) != "" {
		first = strings.TrimRight(first, " \t\r") + " ..."
	}
	return Inline(first)
}

// Table aligns rows in columns; the first row is the heading. Cells of the last column are not padded; each cell
// shows its first line.
func Table(rows ...[]string) string {
	var widths []int
	for r, row := range rows {
		rows[r] = slices.Clone(row)
		for i, cell := range row {
			cell = Line(cell)
			rows[r][i] = cell
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
				b.WriteString(gap)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Pairs aligns "key = value" lines. An empty value is shown as <none>; the lines of one that has several are
// aligned.
func Pairs(pairs ...[2]string) string {
	pairs = slices.Clone(pairs)
	width := 0
	for i, p := range pairs {
		pairs[i][0] = Inline(p[0])
		width = max(width, utf8.RuneCountInString(pairs[i][0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString(p[0])
		b.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(p[0])))
		b.WriteString(" = ")
		b.WriteString(OrNone(strings.ReplaceAll(strings.TrimRight(Text(p[1]), "\n"), "\n", "\n"+strings.Repeat(" ", width+len(" = ")))))
		b.WriteByte('\n')
	}
	return b.String()
}

// List is a line for each item.
func List(items []string) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString("* " + Inline(i) + "\n")
	}
	return b.String()
}

// OrNone is s, or <none> when it is empty.
func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Indent puts n spaces before every line that is not empty.
func Indent(s string, n int) string {
	pad := strings.Repeat(" ", n)
	lines := strings.SplitAfter(s, "\n")
	for i, l := range lines {
		if strings.TrimSpace(l) != "" {
			lines[i] = pad + l
		}
	}
	return strings.Join(lines, "")
}
