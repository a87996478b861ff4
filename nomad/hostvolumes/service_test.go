package hostvolumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fixture has two nodes with mkdir, of which n2 is in the pool gpu, and replies for them.
type fixture struct {
	*hostvolumes.Service
	t     *testing.T
	store *state.Store
	// fails is what nodes answer; calls are what they were asked.
	fails error
	calls []string
}

func open(t *testing.T) *fixture {
	s := state.New()
	f := &fixture{t: t, store: s}
	f.Service = hostvolumes.New(hostvolumes.Config{Log: hclog.NewNullLogger(), State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(hostvolumes.Commands)), Nodes: f})
	f.write(func(tx *state.Txn) {
		tx.PutNamespace(&api.Namespace{Name: "default"})
		for id, pool := range map[string]string{"n1": "default", "n2": "gpu"} {
			tx.PutNode(&api.Node{
				ID: id, NodePool: pool, Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
				Attributes: map[string]string{"plugins.host_volume.mkdir.version": "0.0.1", "kernel.name": "linux"},
			})
		}
	})
	return f
}

func (f *fixture) write(change func(*state.Txn)) {
	tx := f.store.Write(f.store.Read().Index()+1, time.Unix(1000, 0))
	change(tx)
	tx.Commit()
}

func (f *fixture) Node(id string) (wire.Caller, error) { return node{f, id}, nil }

type node struct {
	*fixture
	id string
}

// Invoke implements [wire.Caller]. A node that created a volume reports it.
func (n node) Invoke(_ context.Context, method string, req, resp any) error {
	v := req.(*api.NodeHostVolumeRequest).Volume
	n.calls = append(n.calls, method)
	if n.fails != nil {
		return n.fails
	}
	if out, ok := resp.(*api.NodeHostVolumeResponse); ok {
		out.HostPath = "/srv/" + v.ID
		n.report(n.id, v)
	}
	return nil
}

func (f *fixture) report(node string, v *api.HostVolume) {
	f.write(func(tx *state.Txn) {
		n := *tx.Node(node)
		n.HostVolumes = map[string]*api.HostVolumeInfo{v.Name: {ID: v.ID, Path: "/srv/" + v.ID, Namespace: v.Namespace, Capabilities: v.RequestedCapabilities}}
		tx.PutNode(&n)
	})
}

func (f *fixture) create(name string, change func(*api.HostVolume)) (*api.HostVolume, error) {
	v := &api.HostVolume{Name: name, PluginID: "mkdir", RequestedCapabilities: []*api.HostVolumeCapability{{AttachmentMode: api.AttachmentFileSystem, AccessMode: api.AccessSingleNodeWriter}}}
	if change != nil {
		change(v)
	}
	out, err := f.Create(f.t.Context(), &api.HostVolumeWriteRequest{Volume: v})
	if err != nil {
		return nil, err
	}
	return out.Volume, nil
}

func (f *fixture) remove(id string, force bool) error {
	_, err := f.Delete(f.t.Context(), &api.HostVolumeDeleteRequest{ID: id, Force: force})
	return err
}

func (f *fixture) rows() []*api.HostVolume { return slices.Collect(f.store.Read().HostVolumes("*")) }

func refused(t *testing.T, err error, class fault.Class, words string) {
	t.Helper()
	if fault.Of(err) != class || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %q", err, words)
	}
}

func TestNodeOfAVolumeIsChosen(t *testing.T) {
	t.Parallel()
	f := open(t)
	v, err := f.create("a", func(v *api.HostVolume) { v.NodePool = "gpu" })
	if err != nil || v.NodeID != "n2" || v.State != api.HostVolumeReady || v.HostPath != "/srv/"+v.ID {
		t.Fatalf("%+v %v", v, err)
	}
	if v, err = f.create("a", nil); err != nil || v.NodeID != "n1" {
		t.Errorf("the node with the name already: %+v %v", v, err)
	}
	_, err = f.create("a", nil)
	refused(t, err, fault.Conflict, "2 of the nodes: has a host volume of that name")
	_, err = f.create("b", func(v *api.HostVolume) { v.PluginID = "nfs" })
	refused(t, err, fault.Conflict, `no host volume plugin "nfs"`)
	_, err = f.create("b", func(v *api.HostVolume) {
		v.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "plan9"}}
	})
	refused(t, err, fault.Conflict, "${attr.kernel.name} = plan9")
	_, err = f.create("b", func(v *api.HostVolume) { v.NodeID = "n9" })
	refused(t, err, fault.NotFound, `node "n9" does not exist`)
	_, err = f.create("b c", func(v *api.HostVolume) { v.RequestedCapabilities = nil })
	refused(t, err, fault.Invalid, "at least one capability")
	_, err = f.create("b", func(v *api.HostVolume) { v.ID = "x" })
	refused(t, err, fault.NotFound, "leave out the id")
	if len(f.rows()) != 2 {
		t.Errorf("%d rows", len(f.rows()))
	}
}

func TestQuotaLimitsTheSizeOfHostVolumes(t *testing.T) {
	t.Parallel()
	f := open(t)
	limit := func(mb int) {
		f.write(func(tx *state.Txn) {
			tx.PutNamespace(&api.Namespace{Name: "default", Quota: "q"})
			tx.PutQuota(&api.QuotaSpec{Name: "q", Limits: []*api.QuotaLimit{{RegionLimit: &api.QuotaResources{Storage: &api.QuotaStorageResources{HostVolumesMB: mb}}}}})
		})
	}
	sized := func(mb int64) func(*api.HostVolume) {
		return func(v *api.HostVolume) { v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes = mb<<20, mb<<20 }
	}
	limit(100)
	_, err := f.create("free", nil)
	refused(t, err, fault.Conflict, "set capacity_min or capacity_max")
	_, err = f.create("big", sized(101))
	refused(t, err, fault.Conflict, "host_volumes exhausted (101 MiB needed > 100 MiB limit)")
	a, err := f.create("a", sized(60))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.create("b", sized(41))
	refused(t, err, fault.Conflict, "host_volumes exhausted (101 MiB needed > 100 MiB limit)")
	_, err = f.create("a", func(v *api.HostVolume) { v.ID = a.ID; sized(101)(v) })
	refused(t, err, fault.Conflict, "host_volumes exhausted")
	if _, err = f.create("a", func(v *api.HostVolume) { v.ID = a.ID; sized(100)(v) }); err != nil {
		t.Errorf("a volume grows up to the limit: %v", err)
	}
	limit(10)
	if _, err = f.create("a", func(v *api.HostVolume) { v.ID = a.ID; sized(100)(v) }); err != nil {
		t.Errorf("a volume that does not grow is refused by a limit that was lowered: %v", err)
	}
	limit(0)
	if _, err = f.create("free", nil); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// TestAnswersOfTheNode: a refusal forgets the volume, a lost answer leaves it pending until the node reports it.
func TestAnswersOfTheNode(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.fails = fault.New(fault.Invalid, "no room")
	_, err := f.create("a", nil)
	refused(t, err, fault.Invalid, "no room")
	if len(f.rows()) != 0 {
		t.Errorf("%d rows are left", len(f.rows()))
	}
	f.fails = fault.New(fault.Unavailable, "connection lost")
	_, err = f.create("a", func(v *api.HostVolume) { v.NodeID = "n1" })
	refused(t, err, fault.Unavailable, "is pending until the node reports it")
	row := f.rows()[0]
	get := func() *api.HostVolume {
		out, err := f.Get(t.Context(), &api.HostVolumeGetRequest{ID: row.ID})
		if err != nil {
			t.Fatal(err)
		}
		return out.Volume
	}
	if s := get().State; s != api.HostVolumePending {
		t.Errorf("state %s", s)
	}
	f.report("n1", row)
	if s := get().State; s != api.HostVolumeReady {
		t.Errorf("state %s", s)
	}
	refused(t, f.remove(row.ID, false), fault.Unavailable, "unavailable until it is deleted")
	if s := get().State; s != api.HostVolumeUnavailable || f.store.Read().Node("n1").HostVolumes["a"] != nil {
		t.Errorf("jobs are placed with it: state %s", s)
	}
	f.fails = nil
	if err := f.remove(row.ID, false); err != nil || len(f.rows()) != 0 {
		t.Errorf("%v", err)
	}
	refused(t, f.remove(row.ID, false), fault.NotFound, "volume not found")
}

func TestVolumeInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	f := open(t)
	v, err := f.create("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(status string) {
		f.write(func(tx *state.Txn) {
			g := &api.TaskGroup{Name: "g", Volumes: map[string]*api.VolumeRequest{"v": {Type: api.VolumeTypeHost, Source: "a"}}}
			tx.PutAlloc(&api.Allocation{ID: "a1", Name: "j.g[0]", Namespace: "default", JobID: "j", NodeID: v.NodeID, TaskGroup: "g", ClientStatus: status, Job: &api.Job{ID: "j", Namespace: "default", TaskGroups: []*api.TaskGroup{g}}})
		})
	}
	put(api.AllocClientStatusRunning)
	f.calls = nil
	refused(t, f.remove(v.ID, true), fault.Conflict, "is used by allocation a1 (j.g[0])")
	if len(f.calls) != 0 {
		t.Errorf("the node was asked: %v", f.calls)
	}
	put(api.AllocClientStatusComplete)
	f.write(func(tx *state.Txn) {
		n := *tx.Node(v.NodeID)
		n.Status = api.NodeStatusDown
		tx.PutNode(&n)
		tx.PutHostVolumeClaim(&api.HostVolumeClaim{ID: "c", Namespace: "default", JobID: "j", VolumeID: v.ID})
	})
	refused(t, f.remove(v.ID, false), fault.Unavailable, "-force")
	if err := f.remove(v.ID, true); err != nil || len(f.rows()) != 0 || f.store.Read().HostVolumeClaim("default", "c") != nil {
		t.Errorf("%v", err)
	}
	if _, err := f.DeleteClaim(t.Context(), &api.HostVolumeClaimDeleteRequest{ID: "c"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

// TestCapacityOnlyGrows: an update without a capacity keeps the one of the volume.
func TestCapacityOnlyGrows(t *testing.T) {
	t.Parallel()
	f := open(t)
	sized := func(id string, bytes int64) (*api.HostVolume, error) {
		return f.create("a", func(v *api.HostVolume) { v.ID, v.RequestedCapacityMaxBytes = id, bytes })
	}
	v, err := sized("", 1000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sized(v.ID, 999)
	refused(t, err, fault.Invalid, "volumes do not shrink")
	for _, c := range []struct{ ask, want int64 }{{2000, 2000}, {0, 2000}} {
		if got, err := sized(v.ID, c.ask); err != nil || got.RequestedCapacityMaxBytes != c.want {
			t.Errorf("%d: %+v %v", c.ask, got, err)
		}
	}
}
