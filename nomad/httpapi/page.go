package httpapi

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/filter"
)

// order is how the rows of a list follow each other. The key of a row is its place as a text, and
// the token of the page that it begins.
type order[T any] struct {
	compare func(a, b *T) int
	key     func(*T) string
}

// byName orders rows by one text.
func byName[T any](name func(*T) string) order[T] {
	return order[T]{func(a, b *T) int { return strings.Compare(name(a), name(b)) }, name}
}

// byPath orders rows by namespace and id. A namespace ends with the dot that no name of one has.
func byPath[T any](path func(*T) (namespace, id string)) order[T] {
	return order[T]{
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

// byTime orders rows by creation.
func byTime[T any](birth func(*T) (index uint64, id string)) order[T] {
	return order[T]{
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

// page filters, orders and cuts a list.
func page[T any](c *call, rows []*T, by order[T]) ([]*T, error) {
	rows, err := filter.Rows(c.ctx(), rows, c.query.Filter, itself)
	if err != nil {
		return nil, err
	}
	return paged(c, rows, by)
}

func itself[T any](r *T) any { return r }

// paged orders and cuts a list that servers have filtered.
func paged[T any](c *call, rows []*T, by order[T]) ([]*T, error) {
	err := wire.InTurn(c.ctx(), func() error {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, by.compare)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.query.Reverse {
		slices.Reverse(rows)
	}
	if t := c.query.NextToken; t != "" {
		rows = from(rows, t, c.query.Reverse, by.key)
	}
	if n := int(c.query.PerPage); n > 0 && n < len(rows) {
		c.w.Header().Set("X-Nomad-NextToken", by.key(rows[n]))
		rows = rows[:n]
	}
	return list(rows), nil
}

// from drops the rows before a token; the row itself may be gone.
func from[T any](rows []*T, token string, reverse bool, key func(*T) string) []*T {
	i := sort.Search(len(rows), func(i int) bool {
		if reverse {
			return key(rows[i]) <= token
		}
		return key(rows[i]) >= token
	})
	return rows[i:]
}

// list makes nil lists empty ones.
func list[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
