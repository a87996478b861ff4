package plan

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/share"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// settled is a state with the job and the node of [typical] placements.
func settled(t testing.TB, places []*api.Allocation) (*state.Store, *Apply) {
	t.Helper()
	s := state.New()
	tx := s.Write(1, time.Unix(1_700_000_000, 0))
	for _, a := range places {
		tx.PutNode(&api.Node{ID: a.NodeID, Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible})
	}
	a := places[0]
	tx.PutJob(&api.Job{Namespace: a.Namespace, ID: a.JobID, Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{{Name: a.TaskGroup, Tasks: []*api.Task{{Name: "web"}}}}})
	tx.Commit()
	j := s.Read().Job(a.Namespace, a.JobID)
	return s, &Apply{Plans: []*Entry{{Namespace: j.Namespace, JobID: j.ID, CreateIndex: j.CreateIndex, EvalID: a.EvalID}}}
}

// What is packed has passed by the check of commands: it is looked at when it is unpacked.
func TestPackedPlacementsWithHolesAreRefused(t *testing.T) {
	for what, hole := range map[string]func(*api.Allocation){
		"a task's resources": func(a *api.Allocation) { a.AllocatedResources.Tasks["web"] = nil },
		"an event of a tracker": func(a *api.Allocation) {
			a.RescheduleTracker = &api.RescheduleTracker{Events: []*api.RescheduleEvent{nil}}
		},
	} {
		places := typical(2)
		hole(places[1])
		s, cmd := settled(t, places)
		var err error
		if cmd.Plans[0].Packed, err = pack(places); err != nil {
			t.Fatal(err)
		}
		if _, err := cmd.Apply(s.Write(2, time.Unix(1_700_000_001, 0))); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzUnpack reads any bytes as placements: it takes no more memory than they could fill, and what comes out can be written
// and read again.
func FuzzUnpack(f *testing.F) {
	for _, n := range []int{0, 1, 20} {
		b, err := pack(typical(20)[:n])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{packVersion, 1, 0, 1, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := unpack(b, &share.Pool{})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20+1000*uint64(len(b)) {
			t.Errorf("%d bytes took %d", len(b), took)
		}
		if err != nil {
			return
		}
		again, err := pack(out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(again, &share.Pool{}); err != nil {
			t.Error(err)
		}
	})
}
