package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/gc"
)

func TestChoose(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	ended := []gc.Alloc{{"c", at(3)}, {"a", at(1)}, {"b", at(2)}, {"b2", at(2)}}
	limits := gc.Limits{MaxAllocs: 5, DiskPercent: 80, InodePercent: 70, Parallel: 2}
	for name, c := range map[string]struct {
		usage  gc.Usage
		limits gc.Limits
		want   []string
	}{
		"room":            {gc.Usage{Total: 5, DiskPercent: 80, InodePercent: 70}, limits, nil},
		"too many":        {gc.Usage{Total: 6}, limits, []string{"a"}},
		"more to come":    {gc.Usage{Total: 5, Coming: 3}, limits, []string{"a", "b", "b2"}},
		"never more":      {gc.Usage{Total: 90}, limits, []string{"a", "b", "b2", "c"}},
		"disk is full":    {gc.Usage{Total: 1, DiskPercent: 81}, limits, []string{"a", "b"}},
		"inodes are used": {gc.Usage{Total: 6, InodePercent: 71}, gc.Limits{MaxAllocs: 5, InodePercent: 70}, []string{"a"}},
		"no limits":       {gc.Usage{Total: 900, DiskPercent: 100}, gc.Limits{}, nil},
	} {
		if got := gc.Choose(ended, c.usage, c.limits); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
