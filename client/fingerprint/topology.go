package fingerprint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cpulist"
)

// readTopology reads the cores of the host from sysfs, which is at root; mhz is the speed of cores that do not report
// theirs.
func readTopology(root string, mhz int) (*api.NodeTopology, error) {
	online, err := coresIn(filepath.Join(root, "devices/system/cpu/online"))
	if err != nil {
		return nil, fmt.Errorf("read which cores are online: %w", err)
	}
	slow, _ := coresIn(filepath.Join(root, "devices/cpu_atom/cpus"))
	t := &api.NodeTopology{}
	nodeOf := readNUMA(t, root)
	for _, id := range online {
		dir := filepath.Join(root, "devices/system/cpu", "cpu"+strconv.Itoa(int(id)))
		core := &api.NodeCore{
			ID: id, NodeID: nodeOf[id], SocketID: uint8(max(numberIn(filepath.Join(dir, "topology/physical_package_id")), 0)),
			Grade: !slices.Contains(slow, id), BaseSpeed: uint64(numberIn(filepath.Join(dir, "cpufreq/base_frequency")) / 1000),
			MaxSpeed: uint64(numberIn(filepath.Join(dir, "cpufreq/cpuinfo_max_freq")) / 1000),
		}
		if core.BaseSpeed == 0 && core.MaxSpeed == 0 {
			core.BaseSpeed = uint64(mhz)
		}
		t.Cores = append(t.Cores, core)
	}
	return t, nil
}

// readNUMA fills in the NUMA nodes and returns the node of each core. A host that reports none has one.
func readNUMA(t *api.NodeTopology, root string) map[uint16]uint8 {
	of := map[uint16]uint8{}
	nodes, err := coresIn(filepath.Join(root, "devices/system/node/online"))
	if err != nil || len(nodes) == 0 {
		t.Nodes = []int{0}
		return of
	}
	for _, n := range nodes {
		t.Nodes = append(t.Nodes, int(n))
		dir := filepath.Join(root, "devices/system/node", "node"+strconv.Itoa(int(n)))
		ids, _ := coresIn(filepath.Join(dir, "cpulist"))
		for _, id := range ids {
			of[id] = uint8(n)
		}
		if len(nodes) < 2 {
			continue
		}
		var row []int
		b, _ := os.ReadFile(filepath.Join(dir, "distance"))
		for _, field := range strings.Fields(string(b)) {
			d, _ := strconv.Atoi(field)
			row = append(row, d)
		}
		t.Distances = append(t.Distances, row)
	}
	if len(nodes) > 1 {
		t.BusAssociativity = readBuses(root)
	}
	return of
}

// busesMax limits how many devices a node reports the NUMA node of.
const busesMax = 1024

// readBuses returns the NUMA nodes of the PCI devices that tasks may use: memory controllers, bridges, parts of the
// board and counters are left out, because a host has hundreds of them.
func readBuses(root string) map[string]uint8 {
	of := map[string]uint8{}
	dirs, _ := filepath.Glob(filepath.Join(root, "bus/pci/devices/*"))
	for _, dir := range dirs {
		class, err := os.ReadFile(filepath.Join(dir, "class"))
		if err != nil || len(of) == busesMax {
			continue
		}
		switch kind := strings.TrimPrefix(string(class), "0x"); {
		case strings.HasPrefix(kind, "05"), strings.HasPrefix(kind, "06"), strings.HasPrefix(kind, "08"), strings.HasPrefix(kind, "11"):
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "numa_node"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 8); err == nil { // -1 is unknown
			of[filepath.Base(dir)] = uint8(n)
		}
	}
	return of
}

func coresIn(file string) ([]uint16, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return cpulist.Parse(strings.TrimSpace(string(b)))
}

func numberIn(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// withinReach leaves out the cores that this process, and so its tasks, may not run on.
func withinReach(t *api.NodeTopology) {
	var mine unix.CPUSet
	if unix.SchedGetaffinity(0, &mine) != nil {
		return
	}
	if left := slices.DeleteFunc(slices.Clone(t.Cores), func(c *api.NodeCore) bool { return !mine.IsSet(int(c.ID)) }); len(left) > 0 {
		t.Cores = left
	}
}

// speed is that of a core in MHz.
func speed(c *api.NodeCore) int {
	for _, mhz := range []uint64{c.BaseSpeed, c.MaxSpeed, c.GuessSpeed} {
		if mhz > 0 {
			return int(mhz)
		}
	}
	return 0
}

// setProcessors fills in the topology and what of it tasks may have.
func setProcessors(c *Config, n *api.Node, t *api.NodeTopology) error {
	reserved, err := cpulist.Parse(c.ReservedCores)
	if err != nil {
		return fmt.Errorf("reserved cores: %w", err)
	}
	allowed, err := cpulist.Parse(c.ReservableCores)
	if err != nil {
		return fmt.Errorf("reservable cores: %w", err)
	}
	cpu, total, kept := &n.NodeResources.Cpu, 0, 0
	cpu.TotalCpuCores, cpu.ReservableCpuCores = uint16(len(t.Cores)), nil
	t.OverrideTotalCompute = uint64(max(c.CPUTotalCompute, 0))
	n.ReservedResources.Cpu.ReservedCpuCores = nil
	for _, core := range t.Cores {
		mhz := speed(core)
		if c.CPUTotalCompute > 0 {
			mhz = c.CPUTotalCompute / len(t.Cores)
		}
		total += mhz
		switch {
		case slices.Contains(reserved, core.ID):
			n.ReservedResources.Cpu.ReservedCpuCores = append(n.ReservedResources.Cpu.ReservedCpuCores, core.ID)
			core.Disable, kept = true, kept+mhz
		case len(allowed) > 0 && !slices.Contains(allowed, core.ID):
			core.Disable = true
		default:
			cpu.ReservableCpuCores = append(cpu.ReservableCpuCores, core.ID)
		}
	}
	if c.CPUTotalCompute > 0 {
		total = c.CPUTotalCompute
	}
	cpu.CpuShares = int64(total)
	n.NodeResources.Processors.Topology = t
	n.Attributes["cpu.numcores"] = strconv.Itoa(len(t.Cores))
	n.Attributes["cpu.reservablecores"] = strconv.Itoa(len(cpu.ReservableCpuCores))
	n.Attributes["cpu.totalcompute"] = strconv.Itoa(total)
	n.Attributes["cpu.usablecompute"] = strconv.Itoa(max(total-max(kept, int(c.Reserved.Cpu.CpuShares)), 0))
	return nil
}
