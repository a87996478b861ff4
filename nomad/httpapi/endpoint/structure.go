package endpoint

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// checkStructure refuses bodies that nest too deeply or have too many objects and values for their size, before they are
// decoded and without allocating memory. The error names the field that has most of them.
func checkStructure(data []byte) error {
	depth, deepest, objects, values := 0, 0, 0, 0
	scan(data, func(b byte, _ []byte) bool {
		switch b {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			values++ // the first one in it
			if b == '{' {
				objects++
			}
		case '}', ']':
			depth--
		case ',':
			values++
		}
		return true
	})
	if deepest > bodyDepth {
		return fault.New(fault.Invalid, "request body is nested deeper than %d levels", bodyDepth)
	}
	if limit := objectsFree + len(data)/objectBytes; objects > limit {
		return fault.New(fault.TooLarge, "%s is too large: %d objects in a request body of %d bytes; the limit is %d", largestField(data, values), objects, len(data), limit)
	}
	if limit := valuesFree + len(data)/valueBytes; values > limit {
		return fault.New(fault.TooLarge, "%s is too large: %d values in a request body of %d bytes; the limit is %d", largestField(data, values), values, len(data), limit)
	}
	return nil
}

// scan calls visit for each bracket, comma and colon of a JSON text, with the last string before it, until visit returns
// false. It accepts any text.
func scan(data []byte, visit func(b byte, last []byte) bool) {
	var last []byte
	for i := 0; i < len(data); i++ {
		switch b := data[i]; b {
		case '"':
			start := i + 1
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			last = data[start:min(i, len(data))]
		case '{', '[', '}', ']', ',', ':':
			if !visit(b, last) {
				return
			}
		}
	}
}

// member is the member of an object or a list that scan is in.
type member struct {
	key   []byte // nil in a list
	index int
	first int // value in the whole body
}

// largestField returns the path of the innermost object or list with at least half of the values of a body.
func largestField(data []byte, values int) string {
	open, count := []member{{}}, 0
	scan(data, func(b byte, last []byte) bool {
		top := &open[len(open)-1]
		switch b {
		case '{', '[':
			count++
			open = append(open, member{first: count})
		case ':':
			top.key = last
		case ',':
			count++
			top.index++
		case '}', ']':
			if 2*(count-top.first+1) >= values || len(open) == 1 {
				return false
			}
			open = open[:len(open)-1]
		}
		return true
	})
	return fieldPath(open[1 : len(open)-min(1, len(open)-1)])
}

var plainKey = lazy.Regexp(`^[A-Za-z_]\w*$`)

// fieldPath formats the members that lead to a field, such as Job.TaskGroups[0].Meta["a b"].
func fieldPath(to []member) string {
	var b strings.Builder
	for _, m := range to {
		switch {
		case m.key == nil:
			fmt.Fprintf(&b, "[%d]", m.index)
		case !plainKey().Match(m.key):
			fmt.Fprintf(&b, "[%.64q]", m.key)
		case b.Len() > 0:
			fmt.Fprintf(&b, ".%.64s", m.key)
		default:
			fmt.Fprintf(&b, "%.64s", m.key)
		}
	}
	if b.Len() == 0 {
		return "the body"
	}
	return b.String()
}
