package gc

import (
	"cmp"
	"slices"
	"time"
)

// Limits control when ended allocations are removed.
type Limits struct {
	// MaxAllocs is the number of allocations, running ones included, that the node keeps. It counts only
	// ended ones against it: running ones are never removed. 0 means no limit.
	MaxAllocs int
	// DiskPercent and InodePercent are how full the file system of the allocations may become. 0 means no limit.
	DiskPercent, InodePercent float64
	// Parallel is the number of allocations that are removed at the same time, and at least 1.
	Parallel int
}

// DefaultLimits are the usual ones.
func DefaultLimits() Limits {
	return Limits{MaxAllocs: 50, DiskPercent: 80, InodePercent: 70, Parallel: 2}
}

// Alloc is an allocation that has ended and holds nothing on the node but its files.
type Alloc struct {
	ID    string
	Ended time.Time
}

// Usage is how full the node is.
type Usage struct {
	// Total counts all allocations that the node has, whatever their state.
	Total int
	// Coming counts allocations that are about to be added.
	Coming                    int
	DiskPercent, InodePercent float64
}

// Choose lists the allocations to remove now, those that ended first at the front. Full disks ask for one
// round of Parallel allocations; the caller looks again afterwards.
func Choose(ended []Alloc, u Usage, l Limits) []string {
	n := 0
	if l.MaxAllocs > 0 {
		n = max(0, u.Total+u.Coming-l.MaxAllocs)
	}
	if l.DiskPercent > 0 && u.DiskPercent > l.DiskPercent || l.InodePercent > 0 && u.InodePercent > l.InodePercent {
		n = max(n, l.Parallel, 1)
	}
	sorted := slices.SortedFunc(slices.Values(ended), func(a, b Alloc) int {
		return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.ID, b.ID))
	})
	var out []string
	for _, a := range sorted[:min(n, len(sorted))] {
		out = append(out, a.ID)
	}
	return out
}
