package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
)

// nearWorld is a node with devices at several NUMA nodes, and what of it is free, by NUMA node.
type nearWorld struct {
	cores   map[uint8][]uint16
	devices map[string]map[uint8][]string // by model
	numa    map[string]uint8              // of each device that has one
}

func drawNearWorld(t *rapid.T, n *api.Node) *nearWorld {
	w := &nearWorld{cores: map[uint8][]uint16{}, devices: map[string]map[uint8][]string{}, numa: map[string]uint8{}}
	nodes := rapid.IntRange(1, 3).Draw(t, "numa nodes")
	topology := &api.NodeTopology{BusAssociativity: map[string]uint8{}}
	for i := range nodes {
		topology.Nodes = append(topology.Nodes, i)
	}
	cpu := &n.NodeResources.Cpu
	cpu.TotalCpuCores, cpu.CpuShares = 9, 9000
	for id := range cpu.TotalCpuCores {
		at := uint8(rapid.IntRange(0, nodes-1).Draw(t, "core at"))
		topology.Cores = append(topology.Cores, &api.NodeCore{ID: id, NodeID: at})
		cpu.ReservableCpuCores = append(cpu.ReservableCpuCores, id)
		w.cores[at] = append(w.cores[at], id)
	}
	n.NodeResources.Processors.Topology = topology
	for _, model := range []string{"a", "b"} {
		d := &api.NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: model}
		w.devices[model] = map[uint8][]string{}
		for i := range rapid.IntRange(0, 4).Draw(t, "instances") {
			one := &api.NodeDevice{ID: fmt.Sprint(model, i), Healthy: rapid.IntRange(0, 4).Draw(t, "health") > 0}
			at, known := uint8(rapid.IntRange(0, nodes-1).Draw(t, "device at")), rapid.IntRange(0, 4).Draw(t, "place") > 0
			switch {
			case known:
				bus := fmt.Sprintf("0000:%s%d:00.0", model, i)
				topology.BusAssociativity[bus] = at
				one.Locality = &api.NodeDeviceLocality{PciBusID: rapid.SampledFrom([]string{bus, "0000" + bus}).Draw(t, "bus id")}
			case nodes == 1:
				at = 0
			default:
				at = 255
			}
			w.numa[one.ID] = at
			if d.Instances = append(d.Instances, one); one.Healthy {
				w.devices[model][at] = append(w.devices[model][at], one.ID)
			}
		}
		n.NodeResources.Devices = append(n.NodeResources.Devices, d)
	}
	return w
}

// sum is how many values the map has.
func sum[T any](m map[uint8][]T) (n int) {
	for _, list := range m {
		n += len(list)
	}
	return n
}

// fits reports whether there are cores and devices at all, and whether there are some at one NUMA node.
func (w *nearWorld) fits(cores, count int, models []string) (anywhere, near bool) {
	for _, model := range models {
		anywhere = anywhere || sum(w.cores) >= cores && sum(w.devices[model]) >= count
		for at, list := range w.devices[model] {
			near = near || len(list) >= count && len(w.cores[at]) >= cores
		}
	}
	return anywhere, near
}

// take removes what an allocation got; it fails for what was not free, and returns the NUMA nodes.
func (w *nearWorld) take(t *rapid.T, r *api.AllocatedTaskResources) (at []uint8) {
	remove := func(ok bool, what any) {
		if !ok {
			t.Fatalf("%v was not free", what)
		}
	}
	for _, id := range r.Cpu.ReservedCores {
		found := false
		for numa, list := range w.cores {
			if i := slices.Index(list, id); i >= 0 {
				found, w.cores[numa], at = true, slices.Delete(list, i, i+1), append(at, numa)
			}
		}
		remove(found, id)
	}
	for _, d := range r.Devices {
		for _, id := range d.DeviceIDs {
			numa := w.numa[id]
			list := w.devices[d.Name][numa]
			i := slices.Index(list, id)
			remove(i >= 0, id)
			w.devices[d.Name][numa], at = slices.Delete(list, i, i+1), append(at, numa)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

func TestCoresAreNearDevices(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := newCluster(t)
		var w *nearWorld
		c.node("n", func(n *api.Node) { w = drawNearWorld(r, n) })
		for range rapid.IntRange(1, 4).Draw(r, "jobs") {
			cores, count := rapid.IntRange(1, 3).Draw(r, "cores"), rapid.IntRange(1, 2).Draw(r, "count")
			affinity := rapid.SampledFrom([]string{"prefer", "require"}).Draw(r, "affinity")
			name, models := "gpu", []string{"a", "b"}
			if rapid.Bool().Draw(r, "one model") {
				name, models = "acme/gpu/b", []string{"b"}
			}
			ask := &api.RequestedDevice{Name: name, Count: uint64(count)}
			if rapid.Bool().Draw(r, "prefers a model") {
				ask.Affinities = []*api.Affinity{{LTarget: "${device.model}", RTarget: "b", Operand: "=", Weight: 50}}
			}
			j := job(c.id(), api.JobTypeService, 1, func(j *api.Job) {
				j.TaskGroups[0].Tasks[0].Resources = &api.Resources{
					Cores: cores, MemoryMB: 10, Devices: []*api.RequestedDevice{ask}, NUMA: &api.NUMAResource{Affinity: affinity, Devices: []string{name}},
				}
			})
			c.register(j)
			anywhere, near := w.fits(cores, count, models)
			o := c.run(j)
			if got, want := len(placed(o)) == 1, near || affinity == "prefer" && anywhere; got != want {
				r.Fatalf("placed: %v, near: %v, anywhere: %v, %s %d cores %d devices of %q: %+v\n%+v", got, near, anywhere, affinity, cores, count, name, o.Failed["g"], w)
			}
			if len(placed(o)) == 0 {
				continue
			}
			for _, given := range placed(o)[0].AllocatedResources.Tasks {
				if at := w.take(r, given); near && len(at) != 1 {
					r.Fatalf("cores %v and devices %v are at the NUMA nodes %v, and might be at one", given.Cpu.ReservedCores, given.Devices[0].DeviceIDs, at)
				}
			}
		}
	})
}

func TestTasksOfOneGroupAreEachNearTheirDevices(t *testing.T) {
	c := newCluster(t)
	c.node("n", twoSockets, func(n *api.Node) {
		n.NodeResources.Processors.Topology.BusAssociativity = map[string]uint8{"0000:00:00.0": 0, "0000:00:01.0": 1}
		n.NodeResources.Devices = []*api.NodeDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x", Instances: []*api.NodeDevice{
			{ID: "d0", Healthy: true, Locality: &api.NodeDeviceLocality{PciBusID: "0000:00:00.0"}},
			{ID: "d1", Healthy: true, Locality: &api.NodeDeviceLocality{PciBusID: "00000000:00:01.0"}},
		}}}
	})
	j := coresJob("j", "require", 3, 3)
	for _, task := range j.TaskGroups[0].Tasks {
		task.Resources.Devices = []*api.RequestedDevice{{Name: "gpu", Count: 1}}
		task.Resources.NUMA.Devices = []string{"gpu"}
	}
	c.register(j)
	o := c.run(j)
	if len(placed(o)) != 1 {
		t.Fatalf("%+v", o.Failed["g"])
	}
	for name, given := range placed(o)[0].AllocatedResources.Tasks {
		for _, id := range given.Cpu.ReservedCores {
			if want := fmt.Sprint("d", id%2); given.Devices[0].DeviceIDs[0] != want {
				t.Errorf("task %s has core %d and device %s", name, id, given.Devices[0].DeviceIDs[0])
			}
		}
	}
	k := coresJob("k", "require", 1)
	k.TaskGroups[0].Tasks[0].Resources.Devices, k.TaskGroups[0].Tasks[0].Resources.NUMA.Devices = []*api.RequestedDevice{{Name: "gpu", Count: 1}}, []string{"gpu"}
	c.register(k)
	if o := c.plan(k); o.Failed["g"] == nil || o.Failed["g"].DimensionExhausted["devices: no devices match request"] != 1 {
		t.Errorf("%+v", o.Failed["g"])
	}
}
