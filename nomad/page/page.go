// Package page returns lists page by page: it walks the rows of a table from the token of the page on, keeps those that
// the filter matches, and stops when the page is full.
package page

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// turnTime is for how long rows are read before other clients get the processor.
const turnTime = 10 * time.Millisecond

// List is what a list consists of.
type List[T, R any] struct {
	// Walk yields the rows of a span in order.
	Walk func(state.Span) iter.Seq[T]
	// Token names a row. It is the first of the page that it begins.
	Token func(T) string
	// Keep reports whether a row belongs to the list; nil keeps all.
	Keep func(T) bool
	// View is what filters read: the stored object, which has the fields that the shown row leaves out.
	View func(T) any
	// Row is what the list shows of a row.
	Row func(T) R
}

// Stored is a list that shows rows as they are stored.
func Stored[T any](walk func(state.Span) iter.Seq[T], token func(T) string) List[T, T] {
	return List[T, T]{Walk: walk, Token: token, View: func(row T) any { return row }, Row: func(row T) T { return row }}
}

// Sorted walks rows that are in no table, sorted by their tokens.
func Sorted[T any](rows []T, token func(T) string) func(state.Span) iter.Seq[T] {
	slices.SortFunc(rows, func(a, b T) int { return strings.Compare(token(a), token(b)) })
	return func(s state.Span) iter.Seq[T] {
		return func(yield func(T) bool) {
			for i := range rows {
				row := rows[i]
				if s.Reverse {
					row = rows[len(rows)-1-i]
				}
				behind := strings.Compare(token(row), s.From)
				if s.From != "" && (behind < 0 && !s.Reverse || behind > 0 && s.Reverse) || !strings.HasPrefix(token(row), s.Prefix) {
					continue
				}
				if !yield(row) {
					return
				}
			}
		}
	}
}

// Read returns a page of a list. It blocks as [rpc.Block] does.
func Read[T, R any](ctx context.Context, s *state.Store, q *api.QueryOptions, m *api.QueryMeta, keys []state.Key, list func(*state.Txn) List[T, R]) ([]R, error) {
	f, err := readFilter(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	var l List[T, R]
	if err := rpc.Block(ctx, s, q, m, keys, func(tx *state.Txn) error {
		l = list(tx)
		return nil
	}); err != nil {
		return nil, err
	}
	rows, next, err := l.page(ctx, q, f)
	m.NextToken = next
	return rows, err
}

// Of reads a page of a list of a snapshot, and the token of the next page.
func Of[T, R any](ctx context.Context, q *api.QueryOptions, l List[T, R]) (rows []R, next string, err error) {
	f, err := readFilter(ctx, q.Filter)
	if err != nil {
		return nil, "", err
	}
	return l.page(ctx, q, f)
}

// page yields to other clients every 10 ms.
func (l List[T, R]) page(ctx context.Context, q *api.QueryOptions, f *filter) (rows []R, next string, err error) {
	span := state.Span{
		Namespace: cmp.Or(q.Namespace, api.DefaultNamespace), Prefix: q.Prefix, From: q.NextToken, Reverse: q.Reverse, Visible: access.Visible(ctx),
	}
	rows = []R{}
	for done := false; !done && err == nil; {
		err = cpulimit.Short(ctx, func() error {
			var end time.Time
			done = true
			for row := range l.Walk(span) {
				switch now := time.Now(); {
				case end.IsZero():
					end = now.Add(turnTime)
				case !now.Before(end):
					span.From, done = l.Token(row), false
					return ctx.Err()
				}
				if l.Keep != nil && !l.Keep(row) {
					continue
				}
				if f != nil {
					if ok, err := f.matches(l.View(row)); err != nil {
						return err
					} else if !ok {
						continue
					}
				}
				if q.PerPage > 0 && len(rows) == int(q.PerPage) {
					next = l.Token(row)
					return nil
				}
				rows = append(rows, l.Row(row))
			}
			return nil
		})
	}
	return rows, next, err
}
