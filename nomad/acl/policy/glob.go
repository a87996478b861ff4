package policy

import (
	"cmp"
	"slices"
	"strings"
)

// shape is how a pattern is found by a name.
type shape uint8

const (
	exact  shape = iota // no star
	prefix              // one star at the end
	suffix              // one star at the beginning
	mixed               // other globs
	shapes
)

// pattern is a name or a glob, in which a star stands for any text.
type pattern struct {
	// text has no two stars in a row.
	text  string
	shape shape
	// literal is how many of its bytes are not stars.
	literal int
}

func patternOf(text string) pattern {
	for strings.Contains(text, "**") {
		text = strings.ReplaceAll(text, "**", "*")
	}
	p := pattern{text: text, shape: mixed}
	stars := strings.Count(text, "*")
	p.literal = len(text) - stars
	switch {
	case stars == 0:
		p.shape = exact
	case stars == 1 && strings.HasSuffix(text, "*"):
		p.shape = prefix
	case stars == 1 && strings.HasPrefix(text, "*"):
		p.shape = suffix
	}
	return p
}

// key is the text that is looked up.
func (p *pattern) key() string {
	switch p.shape {
	case prefix:
		return p.text[:p.literal]
	case suffix:
		return p.text[1:]
	}
	return p.text
}

// Matches reports whether a glob matches a name.
func Matches(glob, name string) bool {
	star, retry := -1, 0 // the last star, and where in name the text after it is tried
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, retry = g, n
			g++
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case star >= 0:
			retry++
			g, n = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// entry is the merged rules of one pattern.
type entry struct {
	*pattern
	kind kind
	// grants are the capabilities of all rules, and perhaps [denied].
	grants uint64
	first  *grant
}

// grant is one rule with its policy.
type grant struct {
	policy string
	*rule
	next *grant
}

// compare orders entries: the one that decides comes first.
func compare(a, b *entry) int {
	return cmp.Or(cmp.Compare(b.literal, a.literal), cmp.Compare(b.grants&denied, a.grants&denied), cmp.Compare(a.text, b.text))
}

// table has the entries of one kind.
type table struct {
	by [shapes]map[string]*entry
	// lengths are those of the keys of prefixes and suffixes, the longest first.
	lengths [shapes][]length
	mixed   []*entry
	// somewhere are the capabilities that some entry grants.
	somewhere uint64
}

// length is how long some keys are, with the set of their inner bytes, the last of a prefix and the first of a suffix: most
// names need no look-up.
type length struct {
	bytes int
	inner [4]uint64
}

// add adds an entry when all its rules are merged.
func (t *table) add(e *entry) {
	if e.grants&denied == 0 {
		t.somewhere |= e.grants
	}
	switch e.shape {
	case mixed:
		t.mixed = append(t.mixed, e)
	case prefix, suffix:
		all := &t.lengths[e.shape]
		i, found := slices.BinarySearchFunc(*all, e.literal, func(l length, n int) int { return n - l.bytes })
		if !found {
			*all = slices.Insert(*all, i, length{bytes: e.literal})
		}
		if e.literal > 0 {
			b := inner(e.shape, e.key(), e.literal)
			(*all)[i].inner[b/64] |= 1 << (b % 64)
		}
	}
}

// inner is the byte of a name at the star of a glob whose key has n bytes.
func inner(s shape, name string, n int) byte {
	if s == prefix {
		return name[n-1]
	}
	return name[len(name)-n]
}

// longest returns the entry of the longest prefix or suffix of a name.
func (t *table) longest(s shape, name string) *entry {
	for i := range t.lengths[s] {
		l := &t.lengths[s][i]
		if l.bytes > len(name) {
			continue
		}
		if l.bytes > 0 {
			if b := inner(s, name, l.bytes); l.inner[b/64]&(1<<(b%64)) == 0 {
				continue
			}
		}
		key := name[:l.bytes]
		if s == suffix {
			key = name[len(name)-l.bytes:]
		}
		if e := t.by[s][key]; e != nil {
			return e
		}
	}
	return nil
}

// find returns the entry that decides about a name, nil when no pattern matches it.
func (t *table) find(name string) *entry {
	if e := t.by[exact][name]; e != nil {
		return e
	}
	best := t.longest(prefix, name)
	if e := t.longest(suffix, name); e != nil && (best == nil || compare(e, best) < 0) {
		best = e
	}
	for _, e := range t.mixed {
		if best != nil && compare(best, e) < 0 {
			break
		}
		if Matches(e.text, name) {
			return e
		}
	}
	return best
}
