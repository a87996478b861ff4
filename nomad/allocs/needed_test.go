package allocs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// A plugin that has ended on a node with volumes has those jobs looked at that run it: its own may be stopped by force.
func TestEndOfAPluginThatIsNeededEvaluatesTheJobsThatRunIt(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		claim  api.ClaimState
		beside bool
		want   []string
	}{
		"mounted":                   {api.ClaimReady, false, []string{"other"}},
		"another instance is there": {api.ClaimReady, true, nil},
		"nothing is mounted":        {api.ClaimUnmounted, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc, s, _ := open(t)
			tx := s.Write(s.Read().Index()+1, time.Now())
			tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusReady})
			for _, id := range []string{"stopped", "other", "work"} {
				j := &api.Job{ID: id, Namespace: "default", Type: api.JobTypeService, Stop: id == "stopped", TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{
					{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeMonolith}},
				}}}}
				if id == "work" {
					j.Type = api.JobTypeBatch
				}
				tx.PutJob(j)
			}
			put := func(id, job, desired string) {
				tx.PutAlloc(&api.Allocation{
					ID: id, Namespace: "default", JobID: job, Job: tx.Job("default", job), TaskGroup: "g", NodeID: "n1",
					DesiredStatus: desired, ClientStatus: api.AllocClientStatusRunning,
				})
			}
			put("a", "stopped", api.AllocDesiredStatusStop)
			if x.beside {
				put("b", "other", api.AllocDesiredStatusRun)
			}
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "u", NodeID: "n1", PluginID: "p", ExternalID: "x", State: x.claim})
			tx.Commit()
			ended := report("a", api.AllocClientStatusComplete)
			if _, err := svc.Update(t.Context(), &api.AllocUpdateRequest{Allocs: []*api.Allocation{ended}, NodeID: "n1"}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for e := range s.Read().Evals(api.AllNamespaces) {
				got = append(got, e.JobID)
			}
			if slices.Sort(got); !slices.Equal(got, x.want) {
				t.Errorf("evaluated %q, want %q", got, x.want)
			}
		})
	}
}
