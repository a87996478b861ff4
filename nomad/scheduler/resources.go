package scheduler

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// resourcesOf returns the resources of the group's allocations that do not depend on the node. All of them share the
// value.
func (r *run) resourcesOf(g *api.TaskGroup) *api.AllocatedResources {
	res := &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{}}
	for _, t := range g.Tasks {
		given := &api.AllocatedTaskResources{}
		if ask := t.Resources; ask != nil {
			if ask.Cores == 0 {
				given.Cpu.CpuShares = int64(ask.CPU)
			}
			given.Memory.MemoryMB = int64(ask.MemoryMB + ask.SecretsMB)
			if r.oversub {
				given.Memory.MemoryMaxMB = memoryMax(ask)
			}
		}
		res.Tasks[t.Name] = given
	}
	if g.EphemeralDisk != nil {
		res.Shared.DiskMB = int64(g.EphemeralDisk.SizeMB)
	}
	return res
}

// memoryMax returns the memory limit of a task; -1 means no limit, 0 the reserved amount.
func memoryMax(ask *api.Resources) int64 {
	if ask.MemoryMaxMB > 0 {
		return int64(ask.MemoryMaxMB + ask.SecretsMB)
	}
	return int64(ask.MemoryMaxMB)
}

// Reasons why a node lacks exclusive resources.
const (
	noCores   = "cores"
	noDevices = "devices: no devices match request"
	noNear    = "numa: no free cores near free devices"
)

// exclusiveAsk holds the requests of a group's tasks for cores and devices. Which ones they get depends on the node. It is
// nil for most groups.
type exclusiveAsk struct {
	cores   []coreAsk
	devices []deviceAsk
	// near are the tasks whose cores must or should be near devices.
	near []nearAsk
	// weight is the sum of the absolute weights of all device affinities.
	weight float64
}

type coreAsk struct {
	task  string
	count int
	// numa is the NUMA affinity of the cores.
	numa string
}

type deviceAsk struct {
	task string
	*feasible.Device
	// near is set when the cores of the task must or should be near the devices.
	near bool
}

// grant is an assignment of a node's cores and devices.
type grant struct {
	mhz     int64
	cores   map[string][]uint16
	devices []deviceGrant
	// score is the affinity score of the devices.
	score float64
}

type deviceGrant struct {
	task  string
	given *api.AllocatedDeviceResource
}

func newExclusiveAsk(g *api.TaskGroup) *exclusiveAsk {
	var s *exclusiveAsk
	for _, t := range g.Tasks {
		if t.Resources == nil || t.Resources.Cores <= 0 && len(t.Resources.Devices) == 0 {
			continue
		}
		if s == nil {
			s = &exclusiveAsk{}
		}
		if n := t.Resources.Cores; n > 0 {
			ask := coreAsk{task: t.Name, count: n}
			if t.Resources.NUMA != nil {
				ask.numa = t.Resources.NUMA.Affinity
				if len(t.Resources.NUMA.Devices) > 0 && ask.rank() < 2 {
					s.near = append(s.near, nearAsk{t.Name, ask.numa == numaRequire})
				}
			}
			s.cores = append(s.cores, ask)
		}
		for _, d := range feasible.Devices(t) {
			s.devices = append(s.devices, deviceAsk{t.Name, d, t.Resources.NUMA != nil && slices.Contains(t.Resources.NUMA.Devices, d.Name)})
			_, weight := d.Score(&api.NodeDeviceResource{})
			s.weight += weight
		}
	}
	if s == nil || len(s.cores)+len(s.devices) == 0 {
		return nil
	}
	// The most constrained requests come first: those for one NUMA node, then those for many cores.
	slices.SortStableFunc(s.cores, func(a, b coreAsk) int {
		if a.rank() != b.rank() {
			return a.rank() - b.rank()
		}
		if a.rank() < 2 {
			return b.count - a.count
		}
		return 0
	})
	return s
}

func (a coreAsk) rank() int {
	switch a.numa {
	case numaRequire:
		return 0
	case numaPrefer:
		return 1
	}
	return 2
}

// NUMA affinities of reserved cores.
const (
	numaRequire = "require"
	numaPrefer  = "prefer"
)

// grantOn returns an assignment on the node, or why there is none.
func (s *exclusiveAsk) grantOn(row *fleet.Row) (*grant, string) {
	if s == nil {
		return &grant{}, ""
	}
	if len(s.near) > 0 {
		return s.grantNear(row)
	}
	return s.grantAt(row, nil)
}

// grantAt returns an assignment in which the tasks of at have their cores, and their devices that must be near, at the NUMA node
// with that position.
func (s *exclusiveAsk) grantAt(row *fleet.Row, at map[string]int) (*grant, string) {
	g := &grant{}
	if len(s.cores) > 0 {
		g.cores = map[string][]uint16{}
		search := coreSearch{numa: row.NUMA(), at: at, asks: s.cores, given: g.cores, steps: searchMax}
		if !search.solve(0, row.FreeCores()) {
			return nil, noCores
		}
		for _, ids := range g.cores {
			g.mhz += row.MHz(ids)
		}
	}
	if len(s.devices) > 0 {
		search := newDeviceSearch(row, s.devices, at)
		search.solve(0, s.weight > 0)
		if !search.found {
			return nil, noDevices
		}
		g.devices = search.best
		if s.weight > 0 {
			g.score = search.matched / s.weight
		}
	}
	return g, ""
}

// prefersDevices reports whether the group has device affinities.
func (s *exclusiveAsk) prefersDevices() bool { return s != nil && s.weight > 0 }

// searchMax bounds the attempts to fit the requests of one group on one node.
const searchMax = 256

// coreSearch assigns cores to tasks in order and backtracks when a later one finds none.
type coreSearch struct {
	numa []fleet.Bits
	// at are the positions of the NUMA nodes of tasks that are bound to one.
	at    map[string]int
	asks  []coreAsk
	given map[string][]uint16
	steps int
}

func (s *coreSearch) solve(k int, free fleet.Bits) bool {
	if k == len(s.asks) {
		return true
	}
	ask := s.asks[k]
	for _, from := range s.places(ask, free) {
		if s.steps--; s.steps < 0 {
			return false
		}
		ids := lowest(from, ask.count)
		s.given[ask.task] = ids
		left := slices.Clone(free)
		for _, id := range ids {
			left[id/64] &^= 1 << (id % 64)
		}
		if s.solve(k+1, left) {
			return true
		}
	}
	return false
}

// places returns the sets from which the task may take its cores, best first: the NUMA node with the fewest free cores.
func (s *coreSearch) places(ask coreAsk, free fleet.Bits) []fleet.Bits {
	if i, bound := s.at[ask.task]; bound {
		if set := s.numa[i].And(free); set.Len() >= ask.count {
			return []fleet.Bits{set}
		}
		return nil
	}
	var sets []fleet.Bits
	if ask.rank() < 2 {
		for _, node := range s.numa {
			if set := node.And(free); set.Len() >= ask.count {
				sets = append(sets, set)
			}
		}
		slices.SortStableFunc(sets, func(a, b fleet.Bits) int { return a.Len() - b.Len() })
	}
	if ask.numa != numaRequire && free.Len() >= ask.count {
		sets = append(sets, free)
	}
	return sets
}

func lowest(set fleet.Bits, n int) []uint16 {
	ids := make([]uint16, 0, n)
	for id := range set.All() {
		if len(ids) == n {
			break
		}
		ids = append(ids, uint16(id))
	}
	return ids
}

// deviceSearch assigns instances to requests in order, the best group first, and keeps the assignment with the highest
// score. Without affinities the first assignment is the best.
type deviceSearch struct {
	row   *fleet.Row
	asks  []deviceAsk
	at    map[string]int
	free  []fleet.Bits
	given []deviceGrant
	score float64
	steps int

	found   bool
	best    []deviceGrant
	matched float64
}

func newDeviceSearch(row *fleet.Row, asks []deviceAsk, at map[string]int) *deviceSearch {
	s := &deviceSearch{row: row, asks: asks, at: at, steps: searchMax}
	for i := range row.Devices() {
		s.free = append(s.free, row.FreeDevices(i))
	}
	return s
}

// solve tries all assignments of the requests from the k-th on, within searchMax.
func (s *deviceSearch) solve(k int, prefers bool) {
	if k == len(s.asks) {
		if !s.found || s.score > s.matched {
			s.found, s.matched, s.best = true, s.score, slices.Clone(s.given)
		}
		return
	}
	ask := s.asks[k]
	for _, c := range s.choices(ask) {
		if s.steps--; s.steps < 0 || s.found && !prefers {
			return
		}
		before := s.free[c.group]
		left := slices.Clone(before)
		group := s.row.Devices()[c.group]
		given := &api.AllocatedDeviceResource{Vendor: group.Vendor, Type: group.Type, Name: group.Name}
		for _, place := range lowest(s.freeFor(ask, c.group), ask.Count) {
			given.DeviceIDs = append(given.DeviceIDs, group.Instances[place].ID)
			left[place/64] &^= 1 << (place % 64)
		}
		score := s.score
		s.free[c.group], s.given, s.score = left, append(s.given, deviceGrant{ask.task, given}), score+c.score
		s.solve(k+1, prefers)
		s.free[c.group], s.given, s.score = before, s.given[:k], score
	}
}

// freeFor returns the free instances of the group that the request may have.
func (s *deviceSearch) freeFor(ask deviceAsk, group int) fleet.Bits {
	if i, bound := s.at[ask.task]; bound && ask.near {
		return s.free[group].And(s.row.FreeDevicesNear(group, i))
	}
	return s.free[group]
}

type deviceChoice struct {
	group int
	score float64
}

// choices returns the device groups that can serve the request, highest score first.
func (s *deviceSearch) choices(ask deviceAsk) []deviceChoice {
	var all []deviceChoice
	for i, g := range s.row.Devices() {
		if s.freeFor(ask, i).Len() >= ask.Count && ask.Fits(g.NodeDeviceResource) {
			matched, _ := ask.Score(g.NodeDeviceResource)
			all = append(all, deviceChoice{i, matched})
		}
	}
	slices.SortStableFunc(all, func(a, b deviceChoice) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	return all
}

// tasks returns the resources of the tasks with the granted cores and devices.
func (g *grant) tasks(row *fleet.Row, base map[string]*api.AllocatedTaskResources) map[string]*api.AllocatedTaskResources {
	if len(g.cores)+len(g.devices) == 0 {
		return base
	}
	all := maps.Clone(base)
	own := func(task string) *api.AllocatedTaskResources {
		if all[task] == base[task] {
			next := *base[task]
			all[task] = &next
		}
		return all[task]
	}
	for task, ids := range g.cores {
		cpu := &own(task).Cpu
		cpu.ReservedCores, cpu.CpuShares = ids, row.MHz(ids)
	}
	for _, d := range g.devices {
		t := own(d.task)
		t.Devices = append(t.Devices, d.given)
	}
	return all
}
