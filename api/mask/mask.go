// Package mask hides secrets. [Redacted] removes the fields with the tag secret from values: this tag is the list of all secret
// fields. [Masker] hides the values of secrets in texts: replies of storage plugins, and what is recorded, shown or logged of it.
//
// A value is hidden in the forms in which programs print it: as it is, without white space around it, line by
// line, quoted for Go, JSON, HTML or a URL, in base64 (also inside a longer text that was encoded), in hex.
//
// # Which values
//
// Values of four bytes and more are hidden wherever they appear; a user name or a pool that is kept among the
// secrets is one of them. Shorter values, and words such as "true", would be found in every text: they are
// hidden only next to the name of their key, as in pin=12. What stands after a name such as password= or
// "token": is hidden even if the value is not known.
package mask

import (
	"slices"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/internal/lazy"
)

// Hidden stands in a text where a secret was.
const Hidden = "[secret]"

// Bounds of what a [Masker] remembers: the values added last.
const (
	maxValues = 1000
	maxBytes  = 256 << 10
)

// Masker remembers values of secrets and hides them in texts. The zero value is ready, and a nil one hides
// only what its name gives away. It may be used by many at once.
type Masker struct {
	mu     sync.Mutex
	values map[secret]*forms
	order  []secret // the value that was added longest ago first
	bytes  int
}

// secret is one value; the key matters only for short values.
type secret struct{ key, value string }

// New makes a masker that knows the secrets.
func New(secrets ...map[string]string) *Masker {
	m := &Masker{}
	for _, s := range secrets {
		m.Add(s)
	}
	return m
}

// Text hides the values of the secrets in a text.
func Text(text string, secrets ...map[string]string) string { return New(secrets...).Text(text) }

// Add remembers the values of secrets.
func (m *Masker) Add(secrets map[string]string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range secrets {
		m.addLocked(k, v)
	}
}

// AddFlags remembers the values of mount flags with a secret name, such as password=x.
func (m *Masker) AddFlags(flags []string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, list := range flags {
		for flag := range strings.SplitSeq(list, ",") {
			if k, v, ok := strings.Cut(flag, "="); ok && telling().MatchString(k) {
				m.addLocked(k, v)
			}
		}
	}
}

func (m *Masker) addLocked(key, value string) {
	s := secret{key, value}
	if !short(value) {
		s.key = ""
	}
	if value == "" || len(value) > maxBytes {
		return
	}
	if m.values == nil {
		m.values = map[secret]*forms{}
	}
	if _, known := m.values[s]; known {
		i := slices.Index(m.order, s)
		m.order = append(slices.Delete(m.order, i, i+1), s)
		return
	}
	m.values[s], m.order, m.bytes = formsOf(s), append(m.order, s), m.bytes+len(value)
	for len(m.order) > maxValues || m.bytes > maxBytes {
		m.bytes -= len(m.order[0].value)
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
}

// Text returns the text with everything hidden that is a known secret or is named like one.
func (m *Masker) Text(text string) string {
	if text == "" {
		return ""
	}
	spots := named(text)
	if m != nil {
		m.mu.Lock()
		for _, f := range m.values {
			spots = f.find(text, spots)
		}
		m.mu.Unlock()
	}
	return hide(text, spots)
}

// span is a part of a text: from begin up to end.
type span struct{ begin, end int }

// hide replaces the spans; those that overlap or touch are one.
func hide(text string, spots []span) string {
	if len(spots) == 0 {
		return text
	}
	slices.SortFunc(spots, func(a, b span) int { return a.begin - b.begin })
	var out strings.Builder
	at := 0
	for i := 0; i < len(spots); {
		begin, end := spots[i].begin, spots[i].end
		for i++; i < len(spots) && spots[i].begin <= end; i++ {
			end = max(end, spots[i].end)
		}
		out.WriteString(text[at:begin])
		out.WriteString(Hidden)
		at = end
	}
	out.WriteString(text[at:])
	return out.String()
}

const tellingName = `[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credentials?|(?:api|access|private|account|auth)[_.-]?key)[\w.-]*`

var (
	telling = lazy.Regexp(`(?i)^(?:` + tellingName + `|pass|key|cred)$`)
	// What follows name= or "name": up to the end of the word or quotation.
	assigned = lazy.Regexp(`(?i)(?:` + tellingName + `=|"` + tellingName + `"\s*:\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"']+)`)
)

// named finds values by the names before them.
func named(text string) []span {
	var out []span
	for _, at := range assigned().FindAllStringSubmatchIndex(text, -1) {
		begin, end := at[2], at[3]
		if q := text[begin]; (q == '"' || q == '\'') && end-begin >= 2 {
			begin, end = begin+1, end-1
		}
		if begin < end && text[begin:end] != Hidden {
			out = append(out, span{begin, end})
		}
	}
	return out
}
