// Package filter selects rows by the expressions of clients (go-bexpr). Lists evaluate them on the stored object, not
// on the row that they show: a field that a row leaves out is not an empty one.
package filter

import (
	"context"
	"time"

	"github.com/hashicorp/go-bexpr"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Bounds of filters. The time to read one grows with its length times its depth, and cannot be cut.
const (
	maxBytes = 16 << 10
	// turnTime is for how long rows are filtered in one turn.
	turnTime = 10 * time.Millisecond
)

// Rows returns the rows for whose view the expression holds, all when it is empty. It computes in turns of the client,
// so it must not be called in one.
func Rows[T any](ctx context.Context, rows []T, expression string, view func(T) any) (kept []T, err error) {
	if expression == "" {
		return rows, nil
	}
	if len(expression) > maxBytes {
		return nil, fault.New(fault.Invalid, "filter has %d bytes; at most %d are read", len(expression), maxBytes)
	}
	var filter *bexpr.Evaluator
	err = wire.RunLong(ctx, func() (err error) {
		filter, err = bexpr.CreateEvaluator(expression)
		return unreadable(err)
	})
	for i := 0; i < len(rows) && err == nil; {
		err = wire.RunShort(ctx, func() error {
			for end := time.Now().Add(turnTime); i < len(rows) && time.Now().Before(end); i++ {
				ok, err := filter.Evaluate(view(rows[i]))
				if err != nil {
					return unreadable(err)
				}
				if ok {
					kept = append(kept, rows[i])
				}
			}
			return ctx.Err()
		})
	}
	return kept, err
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Invalid, "failed to read filter expression: %w", err)
}
