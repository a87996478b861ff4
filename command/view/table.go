package view

import (
	"strings"
	"unicode/utf8"
)

// gap is what stands between two columns.
const gap = "  "

// Table aligns rows in columns; the first row is the heading. Cells of the last column are not padded.
func Table(rows ...[]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
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

// Pairs aligns "key = value" lines. An empty value is shown as <none>.
func Pairs(pairs ...[2]string) string {
	width := 0
	for _, p := range pairs {
		width = max(width, utf8.RuneCountInString(p[0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString(p[0])
		b.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(p[0])))
		b.WriteString(" = ")
		b.WriteString(OrNone(p[1]))
		b.WriteByte('\n')
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
