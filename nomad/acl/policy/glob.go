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

// matches reports whether a glob matches a name.
func matches(glob, name string) bool {
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
	lengths [shapes][]int
	mixed   []*entry
	// somewhere are the capabilities that some entry grants.
	somewhere uint64
}

// finish computes what lookups need.
func (t *table) finish() {
	for _, s := range []shape{prefix, suffix} {
		for key := range t.by[s] {
			t.lengths[s] = append(t.lengths[s], len(key))
		}
		slices.SortFunc(t.lengths[s], func(a, b int) int { return b - a })
		t.lengths[s] = slices.Compact(t.lengths[s])
	}
	for _, e := range t.by[mixed] {
		t.mixed = append(t.mixed, e)
	}
	slices.SortFunc(t.mixed, compare)
	for s := range t.by {
		for _, e := range t.by[s] {
			if e.grants&denied == 0 {
				t.somewhere |= e.grants
			}
		}
	}
}

// find returns the entry that decides about a name, nil when no pattern matches it.
func (t *table) find(name string) *entry {
	if e := t.by[exact][name]; e != nil {
		return e
	}
	var best *entry
	for _, n := range t.lengths[prefix] {
		if n > len(name) {
			continue
		}
		if best = t.by[prefix][name[:n]]; best != nil {
			break
		}
	}
	for _, n := range t.lengths[suffix] {
		if n > len(name) {
			continue
		}
		if e := t.by[suffix][name[len(name)-n:]]; e != nil {
			if best == nil || compare(e, best) < 0 {
				best = e
			}
			break
		}
	}
	for _, e := range t.mixed {
		if best != nil && compare(best, e) < 0 {
			break
		}
		if matches(e.text, name) {
			return e
		}
	}
	return best
}
