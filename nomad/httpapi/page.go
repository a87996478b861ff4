package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"

	"github.com/open-nomad/open-nomad/api/fault"
)

// page filters, orders and cuts a list. The key of a row is its place in the order and the token
// of the page that it begins.
func page[T any](c *call, rows []*T, key func(*T) string) ([]*T, error) {
	rows, err := filtered(rows, c.query.Filter)
	if err != nil {
		return nil, err
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *T) int { return strings.Compare(key(a), key(b)) })
	if c.query.Reverse {
		slices.Reverse(rows)
	}
	if t := c.query.NextToken; t != "" {
		rows = from(rows, t, c.query.Reverse, key)
	}
	if n := int(c.query.PerPage); n > 0 && n < len(rows) {
		c.w.Header().Set("X-Nomad-NextToken", key(rows[n]))
		rows = rows[:n]
	}
	if rows == nil {
		rows = []*T{}
	}
	return rows, nil
}

// from drops the rows before a token; the row itself may be gone.
func from[T any](rows []*T, token string, reverse bool, key func(*T) string) []*T {
	i := slices.IndexFunc(rows, func(r *T) bool {
		if reverse {
			return key(r) <= token
		}
		return key(r) >= token
	})
	if i < 0 {
		return nil
	}
	return rows[i:]
}

func filtered[T any](rows []*T, expression string) ([]*T, error) {
	if expression == "" {
		return rows, nil
	}
	filter, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, fault.New(fault.Invalid, "failed to read filter expression: %w", err)
	}
	var kept []*T
	for _, r := range rows {
		ok, err := filter.Evaluate(*r)
		if err != nil {
			return nil, fault.New(fault.Invalid, "failed to read filter expression: %w", err)
		}
		if ok {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// byTime makes keys that order rows by creation.
func byTime(index uint64, id string) string { return fmt.Sprintf("%020d.%s", index, id) }

// list makes nil lists empty ones.
func list[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
