package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Lengths in bytes below which a form is found in texts by chance.
const (
	shortest     = 4
	shortestLine = 8
	shortestCore = 8
)

// words are values that are not secret and appear in every text.
var words = []string{"true", "false", "none", "null", "yes", "no", "on", "off", "default"}

func short(value string) bool {
	return len(value) < shortest || slices.Contains(words, strings.ToLower(value))
}

// forms are the ways in which a value may be printed: anywhere, or next to the name of its key.
type forms struct {
	texts []string
	// beside is the key that a short value must follow.
	beside string
	value  string
}

func formsOf(s secret) *forms {
	if short(s.value) {
		return &forms{beside: s.key, value: s.value}
	}
	f := &forms{}
	f.add(s.value)
	if t := strings.TrimSpace(s.value); t != s.value {
		f.add(t)
	}
	lines := strings.FieldsFunc(s.value, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= shortestLine {
				f.text(line)
			}
		}
	}
	slices.Sort(f.texts)
	f.texts = slices.Compact(f.texts)
	return f
}

func (f *forms) text(t string) {
	if len(t) >= shortest {
		f.texts = append(f.texts, t)
	}
}

// add adds a value in all its spellings.
func (f *forms) add(v string) {
	f.text(v)
	for _, escaped := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		f.text(escaped)
		f.text(strings.ReplaceAll(escaped, "+", "%20"))
		f.text(lowerPercent(escaped))
	}
	f.text(html.EscapeString(v))
	for _, quoted := range []string{strconv.Quote(v), strconv.QuoteToASCII(v), jsonOf(v, true), jsonOf(v, false)} {
		f.text(strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`))
	}
	for _, h := range []string{hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))} {
		if len(h) >= shortestCore {
			f.text(h)
		}
	}
	f.base64(v)
}

// base64 adds the value encoded alone, and what every encoding of a longer text has where the value begins at
// its first, second or third place of a group.
func (f *forms) base64(v string) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		f.text(enc.EncodeToString([]byte(v)))
		f.text(enc.WithPadding(base64.NoPadding).EncodeToString([]byte(v)))
		for offset := range 3 {
			all := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, offset), v...))
			begin, end := (offset*8+5)/6, (offset+len(v))*8/6
			if end-begin >= shortestCore {
				f.text(all[begin:end])
			}
		}
	}
}

// lowerPercent spells %2F as %2f.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

func jsonOf(v string, escapeHTML bool) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// find appends where the forms are in a text.
func (f *forms) find(text string, spots []span) []span {
	if f.texts == nil {
		for _, at := range places(text, f.value) {
			if isBeside(text[:at.begin], f.beside) && !startsWord(text[at.end:]) {
				spots = append(spots, at)
			}
		}
		return spots
	}
	for _, t := range f.texts {
		spots = append(spots, places(text, t)...)
	}
	return spots
}

// places finds all, also those that overlap.
func places(text, part string) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(text[at:], part)
		if i < 0 {
			return out
		}
		out = append(out, span{at + i, at + i + len(part)})
		at += i + 1
	}
}

// isBeside reports whether before ends with the key and = or :, with or without quotation marks.
func isBeside(before, key string) bool {
	const space, quotes = " \t", "\"'"
	before = strings.TrimRight(strings.TrimRight(before, quotes), space)
	sign := strings.TrimRight(before, "=:")
	if key == "" || len(before)-len(sign) != 1 {
		return false
	}
	name, found := strings.CutSuffix(strings.TrimRight(strings.TrimRight(sign, space), quotes), key)
	return found && !endsWord(name)
}

func startsWord(s string) bool { return s != "" && isWord(s[0]) }

func endsWord(s string) bool { return s != "" && isWord(s[len(s)-1]) }

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
