package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// BenchmarkShareAmongNodes prints what one node costs where a volume that many nodes may write is attached to so many of
// them and detached again, each step in an entry of its own: it must not grow with their number.
func BenchmarkShareAmongNodes(b *testing.B) {
	for _, many := range []int{250, 1000, 2000} {
		b.Run(fmt.Sprint("nodes=", many), func(b *testing.B) {
			for b.Loop() {
				s := newShare(b, many)
				took := s.life(b)
				for i, step := range []string{"take", "publish", "release", "detach"} {
					b.ReportMetric(float64(took[i].Microseconds())/float64(many), step+"-us/node")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// share is a volume that the node of each allocation uses.
type share struct {
	state  *state.Store
	index  uint64
	allocs []*api.Allocation
}

func newShare(tb testing.TB, many int) *share {
	tb.Helper()
	st := state.New()
	s := &share{state: st, index: 1}
	tx := st.Write(1, time.Unix(1_700_000_000, 0))
	const mode = api.AccessMultiNodeMultiWriter
	tx.PutVolume(&api.Volume{
		VolumeSpec: api.VolumeSpec{
			Namespace: "default", ID: "v", PluginID: "p", ExternalID: "ext-v",
			RequestedCapabilities: []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}},
		},
		Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "ext-v"},
	})
	group := &api.TaskGroup{Name: "g", Volumes: map[string]*api.VolumeRequest{
		"data": {Name: "data", Type: api.VolumeTypeCSI, Source: "v", AccessMode: string(mode), AttachmentMode: "file-system"},
	}}
	job := &api.Job{ID: "j", Namespace: "default", TaskGroups: []*api.TaskGroup{group}}
	for i := range many {
		id := fmt.Sprintf("n%04d", i)
		tx.PutNode(&api.Node{
			ID: id, Status: api.NodeStatusReady,
			CSINodePlugins:       map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true, NodeInfo: &api.CSINodeInfo{ID: "machine-" + id}}},
			CSIControllerPlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true}}},
		})
		s.allocs = append(s.allocs, &api.Allocation{
			ID: fmt.Sprintf("a%04d", i), Namespace: "default", NodeID: id, JobID: "j", Job: job, TaskGroup: "g",
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
		})
	}
	tx.Commit()
	return s
}

// life attaches and detaches, and tells how long each step took for all nodes together.
func (s *share) life(tb testing.TB) (took [4]time.Duration) {
	intent := func(tx *state.Txn, node string) ledger.Intent {
		return ledger.IntentOf(tx.Attachment("p", "ext-v", node))
	}
	for i, step := range []func(*state.Txn, *api.Allocation) error{
		func(tx *state.Txn, a *api.Allocation) error {
			tx.PutAlloc(a)
			return ledger.Take(tx, a, nil)
		},
		func(tx *state.Txn, a *api.Allocation) error {
			return ledger.PublishDone(tx, intent(tx, a.NodeID), nil)
		},
		func(tx *state.Txn, a *api.Allocation) error {
			ended := *a
			ended.ClientStatus = api.AllocClientStatusComplete
			tx.PutAlloc(&ended)
			for c := range tx.ClaimsByAlloc(a.ID) {
				return ledger.Released(tx, ledger.HoldOf(c))
			}
			return fmt.Errorf("%s has no claim", a.ID)
		},
		func(tx *state.Txn, a *api.Allocation) error {
			return ledger.UnpublishDone(tx, intent(tx, a.NodeID))
		},
	} {
		began := time.Now()
		for _, a := range s.allocs {
			s.index++
			tx := s.state.Write(s.index, time.Unix(1_700_000_000, int64(s.index)))
			if err := step(tx, a); err != nil {
				tb.Fatal(err)
			}
			tx.Commit()
		}
		took[i] = time.Since(began)
	}
	for c := range s.state.Read().Claims() {
		tb.Fatalf("%s is %s", c.AllocID, c.State)
	}
	return took
}
