package endpoint

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/filter"
)

// Order is how the rows of a list follow each other. The key of a row is its place as a text, and
// the token of the page that it begins.
type Order[T any] struct {
	compare func(a, b *T) int
	key     func(*T) string
}

// ByName orders rows by one text.
func ByName[T any](name func(*T) string) Order[T] {
	return Order[T]{func(a, b *T) int { return strings.Compare(name(a), name(b)) }, name}
}

// ByPath orders rows by namespace and id. A namespace ends with the dot that no name of one has.
func ByPath[T any](path func(*T) (namespace, id string)) Order[T] {
	return Order[T]{
		compare: func(a, b *T) int {
			spaceA, idA := path(a)
			spaceB, idB := path(b)
			if spaceA != spaceB {
				return strings.Compare(spaceA+".", spaceB+".")
			}
			return strings.Compare(idA, idB)
		},
		key: func(r *T) string {
			namespace, id := path(r)
			return namespace + "." + id
		},
	}
}

// ByTime orders rows by creation.
func ByTime[T any](birth func(*T) (index uint64, id string)) Order[T] {
	return Order[T]{
		compare: func(a, b *T) int {
			atA, idA := birth(a)
			atB, idB := birth(b)
			if atA != atB {
				return cmp.Compare(atA, atB)
			}
			return strings.Compare(idA, idB)
		},
		key: func(r *T) string {
			at, id := birth(r)
			return fmt.Sprintf("%020d.%s", at, id)
		},
	}
}

// Filtered are the rows of a list that the filter of the request lets pass.
func Filtered[T any](c *Call, rows []*T) ([]*T, error) {
	return filter.Rows(c.Context(), rows, c.Query.Filter, func(r *T) any { return r })
}

// Page filters, orders and cuts a list.
func Page[T any](c *Call, rows []*T, by Order[T]) ([]*T, error) {
	rows, err := Filtered(c, rows)
	if err != nil {
		return nil, err
	}
	return Paged(c, rows, by)
}

// Paged orders and cuts a list that servers have filtered.
func Paged[T any](c *Call, rows []*T, by Order[T]) ([]*T, error) {
	err := wire.RunShort(c.Context(), func() error {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, by.compare)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.Query.Reverse {
		slices.Reverse(rows)
	}
	if t := c.Query.NextToken; t != "" {
		rows = from(rows, t, c.Query.Reverse, by.key)
	}
	if n := int(c.Query.PerPage); n > 0 && n < len(rows) {
		c.W.Header().Set("X-Nomad-NextToken", by.key(rows[n]))
		rows = rows[:n]
	}
	return List(rows), nil
}

// from drops the rows before a token; the row of the token may have been deleted.
func from[T any](rows []*T, token string, reverse bool, key func(*T) string) []*T {
	i := sort.Search(len(rows), func(i int) bool {
		if reverse {
			return key(rows[i]) <= token
		}
		return key(rows[i]) >= token
	})
	return rows[i:]
}

// List makes nil lists empty ones.
func List[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

// Kept are the rows that keep wants.
func Kept[T any](rows []*T, keep func(*T) bool) []*T {
	var out []*T
	for _, r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}
