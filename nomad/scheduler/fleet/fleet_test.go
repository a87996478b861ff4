package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// A fleet that was edited step by step equals one that is built anew, and no edit changes an older one.
func TestEditsEqualARebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, allocs := map[string]*api.Node{}, map[string]*api.Allocation{}
		f := fleet.New()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before, picture := f, paint(f)
			e := f.Edit()
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				change(t, e, nodes, allocs)
			}
			f = e.Done(f.Index() + 1)
			if paint(before) != picture {
				t.Fatal("an edit changed the fleet that it began from")
			}
			if fresh := fleet.Build(0, maps.Values(nodes), maps.Values(allocs)); paint(fresh) != paint(f) {
				t.Fatalf("edited:\n%s\nbuilt:\n%s", paint(f), paint(fresh))
			}
		}
	})
}

// A row has the loads that were put there, however many changes were merged.
func TestRowsKeepManyLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := fleet.New().Edit()
		e.PutNode(&api.Node{ID: "n"})
		want := map[string]int64{}
		for range rapid.IntRange(1, 20).Draw(t, "commits") {
			for range rapid.IntRange(1, 12).Draw(t, "changes") {
				id := fmt.Sprint("allocation-", rapid.IntRange(0, 40).Draw(t, "alloc"))
				if l, had := e.Remove(0, id); had != (want[id] > 0) || l.CPU != want[id] {
					t.Fatalf("%s took %d (%v), want %d", id, l.CPU, had, want[id])
				}
				delete(want, id)
				if cpu := rapid.Int64Range(-4, 9).Draw(t, "cpu"); cpu > 0 {
					e.Add(0, id, fleet.Load{Amount: fleet.Amount{CPU: cpu}})
					want[id] = cpu
				}
			}
			f := e.Done(1)
			got := map[string]int64{}
			for id, l := range f.Row(0).Loads() {
				got[id] = l.CPU
			}
			if !maps.Equal(got, want) || f.Row(0).Count() != len(want) {
				t.Fatalf("loads %v (%d), want %v", got, f.Row(0).Count(), want)
			}
			e = f.Edit()
		}
	})
}

// A fleet knows which rows changed since a mark, far enough back.
func TestSinceListsWhatChanged(t *testing.T) {
	e := fleet.New().Edit()
	for i := range 70 {
		e.PutNode(&api.Node{ID: fmt.Sprint("n", i)})
	}
	f := e.Done(1)
	if _, known := f.Since(fleet.Mark{}); known {
		t.Error("everything is known since no mark")
	}
	var marks []fleet.Mark
	for i := range 5000 {
		marks = append(marks, f.Mark())
		e := f.Edit()
		e.PutNode(&api.Node{ID: fmt.Sprint("n", i%70)})
		f = e.Done(f.Index() + 1)
		for back := range min(i+1, 60) {
			rows, known := f.Since(marks[i-back])
			if last := int32((i - back) % 70); !known || len(rows) != back+1 || rows[back] != last {
				t.Fatalf("%d changes later: %v %v, want %d last", back+1, rows, known, last)
			}
		}
	}
	if _, known := f.Since(marks[0]); known {
		t.Error("the first change is remembered for ever")
	}
}

func change(t *rapid.T, e *fleet.Edit, nodes map[string]*api.Node, allocs map[string]*api.Allocation) {
	node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		n := &api.Node{ID: node, NodeResources: &api.NodeResources{}, ReservedResources: &api.NodeReservedResources{}}
		n.NodeResources.Cpu.CpuShares = rapid.Int64Range(0, 9).Draw(t, "cpu")
		n.ReservedResources.Networks.ReservedHostPorts = "5"
		n.NodeResources.Cpu.ReservableCpuCores = []uint16{0, 1, 70}
		n.NodeResources.Devices = []*api.NodeDeviceResource{{Type: "gpu", Instances: []*api.NodeDevice{{ID: "a", Healthy: true}, {ID: "b", Healthy: true}}}}
		n.NodeResources.Networks = []*api.NetworkResource{{IP: "10.0.0.1"}, {IP: rapid.SampledFrom([]string{"10.0.0.2", "10.0.0.3"}).Draw(t, "ip")}}
		nodes[node] = n
		e.PutNode(n)
	case 1:
		delete(nodes, node)
		e.DeleteNode(node)
		maps.DeleteFunc(allocs, func(_ string, a *api.Allocation) bool { return a.NodeID == node })
	default:
		if nodes[node] == nil {
			return
		}
		a := &api.Allocation{ID: node + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "alloc"), NodeID: node}
		a.ClientStatus = rapid.SampledFrom([]string{"running", "complete"}).Draw(t, "status")
		task := &api.AllocatedTaskResources{Cpu: api.AllocatedCpuResources{
			CpuShares: rapid.Int64Range(0, 9).Draw(t, "load"), ReservedCores: rapid.SampledFrom([][]uint16{nil, {0}, {0, 70}}).Draw(t, "cores"),
		}}
		if rapid.Bool().Draw(t, "device") {
			task.Devices = []*api.AllocatedDeviceResource{{Type: "gpu", DeviceIDs: []string{rapid.SampledFrom([]string{"a", "b", "gone"}).Draw(t, "instance")}}}
		}
		a.AllocatedResources = &api.AllocatedResources{
			Tasks: map[string]*api.AllocatedTaskResources{"t": task},
			Shared: api.AllocatedSharedResources{Ports: []api.PortMapping{{
				Value: rapid.IntRange(5, 6).Draw(t, "port"), HostIP: rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2"}).Draw(t, "address"),
			}}},
		}
		a.TaskGroup, a.Job = "g", &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}}}}}
		if rapid.Bool().Draw(t, "writes") {
			a.Job.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {Type: api.VolumeTypeHost, Source: "v", AccessMode: "single-node-single-writer"}}
		}
		allocs[a.ID] = a
		e.PutAlloc(a)
	}
}

func paint(f *fleet.Fleet) string {
	s := ""
	for _, id := range []string{"n1", "n2", "n3"} {
		if r := f.Row(f.Find(id)); r != nil {
			s += fmt.Sprintln(id, r.Total, r.Used, r.Count(), taken(r, 5), taken(r, 6), r.Writable(fleet.Write{Volume: "v"}),
				slices.Collect(r.FreeCores().All()), slices.Collect(r.FreeDevices(0).All()))
		}
	}
	return s
}

// taken tells per address whether the port is in use.
func taken(r *fleet.Row, port int) []bool {
	var all []bool
	for _, i := range r.Network("") {
		all = append(all, r.Ports(i).Has(port))
	}
	return all
}

func TestPorts(t *testing.T) {
	var p fleet.Ports
	q := fleet.ParsePorts(p, "22, 80-82,x,9-y,65535,70000")
	for port, want := range map[int]bool{22: true, 80: true, 82: true, 83: false, 65535: true, 9: false, -1: false, 65536: false} {
		if q.Has(port) != want {
			t.Errorf("port %d: %v", port, q.Has(port))
		}
	}
	if p.Has(22) {
		t.Fatal("the empty set changed")
	}
	for port := 100; port < 300; port++ {
		q = q.With(port)
	}
	if got := q.Free(100, 301, 250); got != 300 {
		t.Errorf("free port %d", got)
	}
	if got := q.Free(100, 300, 100); got != -1 {
		t.Errorf("free port %d of a full range", got)
	}
	q = q.Without(120)
	if got := q.Free(100, 300, 250); got != 120 {
		t.Errorf("free port %d", got)
	}
}

func TestLifecycleCountsWhatRunsAtOnce(t *testing.T) {
	task := func(cpu int, hook string, sidecar bool) *api.Task {
		x := &api.Task{Name: fmt.Sprint(cpu), Resources: &api.Resources{CPU: cpu}}
		if hook != "" {
			x.Lifecycle = &api.TaskLifecycle{Hook: hook, Sidecar: sidecar}
		}
		return x
	}
	g := &api.TaskGroup{Tasks: []*api.Task{
		task(500, "prestart", false), task(10, "prestart", true), task(100, "", false), task(20, "poststart", false), task(300, "poststop", false),
	}}
	if got := fleet.AskOf(g).CPU; got != 510 {
		t.Fatalf("asks %d", got)
	}
}

// A node that names no networks has the address of its HTTP server.
func TestTheAddressOfAnAgentIsThatOfItsNode(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1:4646": "10.0.0.1", "[fd00::1]:4646": "fd00::1", "10.0.0.1": "10.0.0.1", "host": "host", "": "",
	} {
		n := &api.Node{ID: "n", HTTPAddr: given, NodeResources: &api.NodeResources{}}
		f := fleet.Build(1, slices.Values([]*api.Node{n}), slices.Values([]*api.Allocation(nil)))
		r := f.Row(f.Find("n"))
		if got := r.Address(r.Network("")[0]).IP; got != want {
			t.Errorf("%q is at %q", given, got)
		}
	}
}
