package fleet

import "slices"

// Share is what allocations of jobs of one priority use of a node together.
type Share struct {
	Priority int
	Count    int
	Amount
}

// Shares are what is used of the node, lowest priority first. They are not to be changed.
func (r *Row) Shares() []Share { return r.shares }

// account counts n loads like l, which is 1 or -1; the row must be the caller's own.
func (r *Row) account(l Load, n int) {
	i, known := slices.BinarySearchFunc(r.shares, l.Priority, func(s Share, p int) int { return s.Priority - p })
	if !known {
		r.shares = slices.Insert(r.shares, i, Share{Priority: l.Priority})
	}
	s := &r.shares[i]
	s.Count += n
	if n > 0 {
		s.Amount = s.Add(l.Amount)
	} else {
		s.Amount = s.Sub(l.Amount)
	}
	if s.Count == 0 {
		r.shares = slices.Delete(r.shares, i, i+1)
	}
}
