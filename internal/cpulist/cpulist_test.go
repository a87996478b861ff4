package cpulist_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cpulist"
)

func TestCores(t *testing.T) {
	for text, want := range map[string][]uint16{"": nil, " ": nil, "0": {0}, "0-2, 5,1": {0, 1, 2, 5}, "7-7": {7}} {
		if got, err := cpulist.Parse(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-", "3-1", "0-", "0,,1", "-1", "0-65535", "70000", "1-99999999999999999999"} {
		if got, err := cpulist.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for want, ids := range map[string][]uint16{"": nil, "3": {3}, "0-2,5,7-8": {8, 0, 1, 2, 2, 5, 7}} {
		if got := cpulist.Format(ids); got != want {
			t.Errorf("%v: %q", ids, got)
		}
	}
}
