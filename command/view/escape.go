package view

import (
	"fmt"
	"strings"
	"unicode"
)

// Text is a text of several lines in which characters that steer a terminal are escaped as in JSON: what servers,
// drivers and tasks write is not trusted. It leaves JSON what it is.
func Text(s string) string {
	if strings.IndexFunc(s, steers) < 0 {
		return s
	}
	return escaped(strings.ReplaceAll(s, "\r\n", "\n"), func(r rune) bool { return r == '\n' || r == '\t' })
}

// Inline is a text within a line: line feeds are escaped too.
func Inline(s string) string {
	if !strings.Contains(s, "\n") && strings.IndexFunc(s, steers) < 0 {
		return s
	}
	return escaped(s, func(rune) bool { return false })
}

func escaped(s string, keep func(rune) bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !steers(r) && r != '\n' && r != '\t' || keep(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// steers reports whether a character has an effect other than being shown in its place: control characters, the ends of
// lines and paragraphs, and changes of the direction of a text.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}
