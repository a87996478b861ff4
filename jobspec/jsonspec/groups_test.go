package jsonspec

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// Nothing is built from a list of groups that is too long.
func TestTooManyGroupsAreRefusedUnbuilt(t *testing.T) {
	text := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`{"ID":"x","TaskGroups":[`)
		for i := range n {
			fmt.Fprintf(&b, `{"Name":"g%d","Tasks":[{"Name":"t","Driver":"raw_exec"}]},`, i)
		}
		return []byte(strings.TrimSuffix(b.String(), ",") + `]}`)
	}
	body := text(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(body)
	runtime.ReadMemStats(&after)
	if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "job has 100000 groups, the limit is 10000") {
		t.Errorf("got %v", err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 80 {
		t.Errorf("%d MiB were taken for a text of %d MiB", used, len(body)>>20)
	} else {
		t.Logf("%d MiB for a text of %d MiB", used, len(body)>>20)
	}
	if j, err := Decode(text(bounds.GroupsMax)); err != nil || len(j.TaskGroups) != bounds.GroupsMax {
		t.Errorf("as many as are possible: %v", err)
	}
}

// An element costs its struct, however little text it takes.
func TestManyEntriesAreRefusedBeforeRoomIsMadeForThem(t *testing.T) {
	for want, text := range map[string]string{
		"job has 140000 tasks, the limit is 20000":       `{"Job":{"ID":"a","TaskGroups":[{"Name":"g","Tasks":[` + strings.Repeat("{},", 139_999) + `{}]}]}}`,
		"more than 200000 entries in lists":              `{"Job":{"ID":"a","TaskGroups":[{"Name":"g","Services":[` + strings.Repeat("{},", 399_999) + `{}]}]}}`,
		"more than 200000 entries in lists and maps":     `{"Job":{"ID":"a","TaskGroups":[` + strings.Repeat(`{"Networks":[{},{},{},{}],"Tasks":[{}]},`, 9_999) + `{"Constraints":[` + strings.Repeat("{},", 199_999) + `{}]}]}}`,
		".VariableFlags: more than 200000 entries in li": `{"Submission":{"VariableFlags":{"":""` + strings.Repeat(`,"":""`, 400_000) + `}}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeRequest([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 250 {
			t.Errorf("%q: %d MiB were taken for a text of %d KiB", want, used, len(text)>>10)
		}
	}
}
