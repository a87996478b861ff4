package fingerprint

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// sysfs writes files below a new root.
func sysfs(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTopologyOfTwoSockets(t *testing.T) {
	const cpu, node = "devices/system/cpu/", "devices/system/node/"
	got, err := readTopology(sysfs(t, map[string]string{
		cpu + "online": "0-3", node + "online": "0-1",
		node + "node0/cpulist": "0,2", node + "node1/cpulist": "1,3",
		node + "node0/distance": "10 21", node + "node1/distance": "21 10",
		cpu + "cpu0/topology/physical_package_id": "0", cpu + "cpu1/topology/physical_package_id": "1",
		cpu + "cpu0/cpufreq/base_frequency": "2500000", cpu + "cpu0/cpufreq/cpuinfo_max_freq": "3500000",
		cpu + "cpu1/cpufreq/cpuinfo_max_freq": "3500000",
		"devices/cpu_atom/cpus":               "3",
		"bus/pci/devices/0000:01:00.0/class":  "0x030200", "bus/pci/devices/0000:01:00.0/numa_node": "1",
		"bus/pci/devices/0000:02:00.0/class": "0x120000", "bus/pci/devices/0000:02:00.0/numa_node": "0",
		"bus/pci/devices/0000:00:00.0/class": "0x060000", "bus/pci/devices/0000:00:00.0/numa_node": "0",
		"bus/pci/devices/0000:03:00.0/class": "0x030200", "bus/pci/devices/0000:03:00.0/numa_node": "-1",
	}), 2000)
	if err != nil {
		t.Fatal(err)
	}
	want := &api.NodeTopology{
		Nodes: []int{0, 1}, Distances: [][]int{{10, 21}, {21, 10}}, BusAssociativity: map[string]uint8{"0000:01:00.0": 1, "0000:02:00.0": 0},
		Cores: []*api.NodeCore{
			{ID: 0, Grade: true, BaseSpeed: 2500, MaxSpeed: 3500},
			{ID: 1, NodeID: 1, SocketID: 1, Grade: true, MaxSpeed: 3500},
			{ID: 2, Grade: true, BaseSpeed: 2000},
			{ID: 3, NodeID: 1, BaseSpeed: 2000},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
		for _, c := range got.Cores {
			t.Errorf("%+v", c)
		}
	}
}

func TestTopologyOfBareHosts(t *testing.T) {
	got, err := readTopology(sysfs(t, map[string]string{"devices/system/cpu/online": "0"}), 1500)
	if err != nil || len(got.Cores) != 1 || speed(got.Cores[0]) != 1500 || !reflect.DeepEqual(got.Nodes, []int{0}) || got.Distances != nil {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := readTopology(t.TempDir(), 0); err == nil {
		t.Error("a host without cores was read")
	}
}

func TestReservedCoresAreNotForTasks(t *testing.T) {
	node := func(c Config) *api.Node {
		n := &api.Node{Attributes: map[string]string{}, NodeResources: &api.NodeResources{}, ReservedResources: &api.NodeReservedResources{}}
		cores := []*api.NodeCore{{ID: 0, BaseSpeed: 1000}, {ID: 1, BaseSpeed: 2000}, {ID: 2, BaseSpeed: 2000}}
		if err := setProcessors(&c, n, &api.NodeTopology{Cores: cores}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := node(Config{ReservedCores: "0", ReservableCores: "0-1"})
	if got := n.NodeResources.Cpu; got.CpuShares != 5000 || got.TotalCpuCores != 3 || !reflect.DeepEqual(got.ReservableCpuCores, []uint16{1}) {
		t.Errorf("%+v", got)
	}
	if got := n.ReservedResources.Cpu.ReservedCpuCores; !reflect.DeepEqual(got, []uint16{0}) || n.Attributes["cpu.usablecompute"] != "4000" {
		t.Errorf("%v, usable %s", got, n.Attributes["cpu.usablecompute"])
	}
	n = node(Config{CPUTotalCompute: 3000, Reserved: api.NodeReservedResources{Cpu: api.NodeReservedCpuResources{CpuShares: 500}}})
	if n.NodeResources.Cpu.CpuShares != 3000 || n.Attributes["cpu.usablecompute"] != "2500" || n.Attributes["cpu.reservablecores"] != "3" ||
		n.NodeResources.Processors.Topology.OverrideTotalCompute != 3000 {
		t.Errorf("%+v %v", n.NodeResources, n.Attributes)
	}
	if err := setProcessors(&Config{ReservedCores: "x"}, n, &api.NodeTopology{}); err == nil {
		t.Error("a bad list of cores was taken")
	}
}
