package reconcile

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of the group's allocation with that index.
func Name(job, group string, index int) string { return fmt.Sprintf("%s.%s[%d]", job, group, index) }

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

// names gives out the lowest free indexes.
type names struct {
	job, group string
	used       map[int]bool
	low        int
}

func newNames(job, group string) *names {
	return &names{job: job, group: group, used: map[int]bool{}}
}

func (n *names) use(name string) { n.used[Index(name)] = true }

func (n *names) next() string {
	for n.used[n.low] {
		n.low++
	}
	n.used[n.low] = true
	return Name(n.job, n.group, n.low)
}
