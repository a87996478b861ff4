package allocs

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Each field of an allocation is either the node's to write or the servers': a new one has to be given to one.
func TestReportOfANodeChangesWhatIsTheNodesAndNothingElse(t *testing.T) {
	nodes := []string{"ClientStatus", "ClientDescription", "TaskStates", "NetworkStatus", "ReportProcess", "ReportNumber"}
	both := []string{"DeploymentStatus", "AllocStates", "ModifyTime"} // other tests tell how
	s := state.New()
	tx := s.Write(10, time.Unix(1000, 0))
	defer tx.Abort()
	old := apitest.Full(&api.Allocation{})
	for _, f := range apitest.Fields(&api.Allocation{}, append(both, "Job")...) {
		report := apitest.Full(&api.Allocation{})
		f.Set(report)
		got, want := f.Get(merged(tx, old, report)), f.Get(old)
		if slices.ContainsFunc(nodes, func(p string) bool {
			return f.Path == p || strings.HasPrefix(f.Path, p+"[") || strings.HasPrefix(f.Path, p+".")
		}) {
			want = f.Get(report)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v after the report, want %v", f.Path, got, want)
		}
	}
}
