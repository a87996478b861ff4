package plan_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// What only one allocation can have at a time is given once: by the state, by plans before, and by the same plan.
func TestExclusiveResourcesAreGivenOnce(t *testing.T) {
	cores := func(ids ...uint16) func(*api.Allocation) {
		return func(a *api.Allocation) {
			for _, r := range a.AllocatedResources.Tasks {
				r.Cpu.ReservedCores = ids
			}
		}
	}
	device := func(model, id string) func(*api.Allocation) {
		return func(a *api.Allocation) {
			for _, r := range a.AllocatedResources.Tasks {
				r.Devices = []*api.AllocatedDeviceResource{{Vendor: "v", Type: "gpu", Name: model, DeviceIDs: []string{id}}}
			}
		}
	}
	port := func(ip string) func(*api.Allocation) {
		return func(a *api.Allocation) {
			a.AllocatedResources.Shared.Ports = []api.PortMapping{{Label: "http", Value: 8080, HostIP: ip}}
		}
	}
	for _, c := range []struct {
		name          string
		first, second func(*api.Allocation)
		volume        string
		why           string
	}{
		{"core twice", cores(0, 1), cores(1), "", "cores"},
		{"other core", cores(0, 1), cores(2), "", ""},
		{"core of the host", cores(0), cores(3), "", "cores"},
		{"core that is not there", cores(0), cores(9), "", "cores"},
		{"device twice", device("m", "a"), device("m", "a"), "", "device oversubscribed"},
		{"other device", device("m", "a"), device("m", "b"), "", ""},
		{"sick device", device("m", "a"), device("m", "sick"), "", "device oversubscribed"},
		{"device of another model", device("m", "a"), device("x", "b"), "", "device oversubscribed"},
		{"port twice", port("10.0.0.1"), port("10.0.0.1"), "", "network: port collision"},
		{"other address", port("10.0.0.1"), port("10.0.0.2"), "", ""},
		{"unknown address", port("10.0.0.1"), port(""), "", "network: port collision"},
		{"two writers", cores(0), cores(1), "single-node-single-writer", "host volume data has a single writer already"},
		{"shared volume", cores(0), cores(1), "single-node-multi-writer", ""},
	} {
		for _, together := range []bool{false, true} {
			w := newWorld(t)
			w.put(func(tx *state.Txn) {
				n := *tx.Node("n1")
				res := *n.NodeResources
				res.Cpu.TotalCpuCores, res.Cpu.ReservableCpuCores = 4, []uint16{0, 1, 2, 3}
				n.ReservedResources = &api.NodeReservedResources{Cpu: api.NodeReservedCpuResources{ReservedCpuCores: []uint16{3}}}
				res.Devices = []*api.NodeDeviceResource{{Vendor: "v", Type: "gpu", Name: "m", Instances: []*api.NodeDevice{
					{ID: "a", Healthy: true}, {ID: "b", Healthy: true}, {ID: "sick"},
				}}}
				res.Networks = []*api.NetworkResource{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}
				n.NodeResources, n.HostVolumes = &res, map[string]*api.HostVolumeInfo{"data": {Path: "/srv"}}
				tx.PutNode(&n)
			})
			j := w.job("j", false)
			if c.volume != "" {
				g := *j.TaskGroups[0]
				g.Volumes = map[string]*api.VolumeRequest{"v": {Type: api.VolumeTypeHost, Source: "data", AccessMode: c.volume}}
				next := *j
				next.TaskGroups = []*api.TaskGroup{&g}
				j = &next
				w.put(func(tx *state.Txn) { tx.PutJob(j) })
			}
			a, b := alloc(j, "a", "n1", 1), alloc(j, "b", "n1", 1)
			c.first(a)
			c.second(b)
			p := planOf(j, nil, b)
			if together {
				p = planOf(j, nil, a, b)
			} else if out := w.submit(planOf(j, nil, a)); !out.Whole {
				t.Fatalf("%s: the first was refused: %+v", c.name, out.PlanResult)
			}
			if out := w.submit(p); out.Whole != (c.why == "") || out.Reasons["n1"] != c.why {
				t.Errorf("%s, together %v: refused with %q, want %q", c.name, together, out.Reasons["n1"], c.why)
			}
		}
	}
}
