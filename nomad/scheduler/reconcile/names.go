package reconcile

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Name is the name of the group's allocation with that index.
func Name(job, group string, index int) string {
	var buf [128]byte
	b := append(append(append(buf[:0], job...), '.'), group...)
	b = append(strconv.AppendInt(append(b, '['), int64(index), 10), ']')
	return string(b)
}

// Index is the index in an allocation's name, or -1.
func Index(name string) int {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return -1
	}
	i, err := strconv.Atoi(name[open+1 : len(name)-1])
	if err != nil || i < 0 {
		return -1
	}
	return i
}

// indexMax bounds the bitmaps; nobody names allocations beyond it.
const indexMax = 1 << 26

// indexes is a set of name indexes.
type indexes struct {
	words []uint64
	low   int // all words before it are full
}

func (s *indexes) has(i int) bool {
	return i >= 0 && i>>6 < len(s.words) && s.words[i>>6]&(1<<(i&63)) != 0
}

func (s *indexes) add(i int) {
	if i < 0 || i >= indexMax {
		return
	}
	for i>>6 >= len(s.words) {
		s.words = append(s.words, 0)
	}
	s.words[i>>6] |= 1 << (i & 63)
}

// next takes the lowest index that is not in the set.
func (s *indexes) next() int {
	for s.low < len(s.words) && s.words[s.low] == ^uint64(0) {
		s.low++
	}
	i := s.low << 6
	if s.low < len(s.words) {
		i += bits.TrailingZeros64(^s.words[s.low])
	}
	s.add(i)
	return i
}

// row is an allocation with the index of its name and what has been found out about it.
type row struct {
	*api.Allocation
	index int
	status
}

// status holds what one evaluation of an allocation found, so that it is evaluated once.
type status struct {
	current bool // of this version
	member  bool // of the current deployment
	ok      bool // runs, and is healthy as far as a deployment asks
}

// byIndex puts the lowest names first and keeps the order under one name. It takes linear time unless
// names are far apart.
func byIndex(rows []row) []row {
	if slices.IsSortedFunc(rows, compareIndex) {
		return rows
	}
	top := 0
	for _, r := range rows {
		top = max(top, r.index)
	}
	if top > 8*len(rows) {
		slices.SortStableFunc(rows, compareIndex)
		return rows
	}
	starts := make([]int32, top+3)
	for _, r := range rows {
		starts[r.index+2]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	sorted := make([]row, len(rows))
	for _, r := range rows {
		at := &starts[r.index+1]
		sorted[*at] = r
		*at++
	}
	return sorted
}

func compareIndex(a, b row) int { return a.index - b.index }
