package endpoint

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Rows follow each other as the tokens of their pages do, also where one namespace begins with the name of another: else
// a page would begin in the wrong place.
func TestRowsAndPageTokensHaveOneOrder(t *testing.T) {
	by := ByPath(func(s *api.JobStub) (string, string) { return s.Namespace, s.ID })
	var rows []*api.JobStub
	for _, ns := range []string{"a", "a-b", "a0", "aa", "b", "a-"} {
		for _, id := range []string{"x", "x-y", "x.y", "a"} {
			rows = append(rows, &api.JobStub{Namespace: ns, ID: id})
		}
	}
	slices.SortFunc(rows, by.compare)
	for i, r := range rows[1:] {
		if by.key(rows[i]) >= by.key(r) {
			t.Errorf("%s stands before %s", by.key(rows[i]), by.key(r))
		}
	}
	for i, r := range rows {
		if rest := from(rows, by.key(r), false, by.key); len(rest) != len(rows)-i || rest[0] != r {
			t.Errorf("the page of %s begins elsewhere", by.key(r))
		}
	}
}

func TestAReadWaitsTenMinutesAtMost(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: waitDefault, time.Second: time.Second, time.Hour: 10 * time.Minute} {
		if got := waitBound(api.QueryOptions{MaxWait: asked}); got != want+want/16 {
			t.Errorf("asked for %s: %s", asked, got)
		}
	}
}
