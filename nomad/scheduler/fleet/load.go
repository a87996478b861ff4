package fleet

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Amount is an amount of what can run out: CPU in MHz, memory and disk in MiB.
type Amount struct{ CPU, MemoryMB, DiskMB int64 }

// Add returns the sum.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.CPU + b.CPU, a.MemoryMB + b.MemoryMB, a.DiskMB + b.DiskMB}
}

// Sub returns the difference.
func (a Amount) Sub(b Amount) Amount {
	return Amount{a.CPU - b.CPU, a.MemoryMB - b.MemoryMB, a.DiskMB - b.DiskMB}
}

// Min is the lesser of both in each dimension.
func (a Amount) Min(b Amount) Amount {
	return Amount{min(a.CPU, b.CPU), min(a.MemoryMB, b.MemoryMB), min(a.DiskMB, b.DiskMB)}
}

func (a Amount) max(b Amount) Amount {
	return Amount{max(a.CPU, b.CPU), max(a.MemoryMB, b.MemoryMB), max(a.DiskMB, b.DiskMB)}
}

// Exceeds names the first dimension in which a is more than total, or answers "".
func (a Amount) Exceeds(total Amount) string {
	switch {
	case a.CPU > total.CPU:
		return "cpu"
	case a.MemoryMB > total.MemoryMB:
		return "memory"
	case a.DiskMB > total.DiskMB:
		return "disk"
	}
	return ""
}

// Load is what one allocation takes from its node.
type Load struct {
	Amount
	// Priority is the job's.
	Priority int
	// Exclusive is what nobody else can have meanwhile; nil for allocations without any of it.
	Exclusive *Exclusive
}

// Exclusive is what only one allocation of a node can have at a time.
type Exclusive struct {
	Ports   []HostPort
	Cores   []uint16
	Devices []*api.AllocatedDeviceResource
	Writes  []Write
}

// HostPort is a port of an address of the node.
type HostPort struct {
	IP   string
	Port int
}

// Write is the use of a host volume for writing. Alone tells that no other writer is allowed.
type Write struct {
	Volume string
	Alone  bool
}

// Ports are the ports of the load.
func (l Load) Ports() []HostPort {
	if l.Exclusive == nil {
		return nil
	}
	return l.Exclusive.Ports
}

// AskOf is what a group asks for, its tasks counted by their life cycle. Reserved cores are not in it: how
// many MHz they are depends on the node.
func AskOf(g *api.TaskGroup) Amount {
	sum := sumByLifecycle(g.Tasks, func(t *api.Task) Amount {
		r := t.Resources
		if r == nil {
			return Amount{}
		}
		a := Amount{CPU: int64(r.CPU), MemoryMB: int64(r.MemoryMB + r.SecretsMB)}
		if r.Cores > 0 {
			a.CPU = 0
		}
		return a
	})
	if g.EphemeralDisk != nil {
		sum.DiskMB += int64(g.EphemeralDisk.SizeMB)
	}
	return sum
}

// MaxMemoryOf is how much memory an allocation of the group may use at most, its tasks counted by their life cycle.
func MaxMemoryOf(g *api.TaskGroup) int64 {
	return memoryOf(g, func(r *api.Resources) int { return max(r.MemoryMB, r.MemoryMaxMB) + r.SecretsMB })
}

// SecretsOf is the size of the directories of secrets of an allocation of the group, its tasks counted by their life cycle.
func SecretsOf(g *api.TaskGroup) int64 {
	return memoryOf(g, func(r *api.Resources) int { return r.SecretsMB })
}

func memoryOf(g *api.TaskGroup, of func(*api.Resources) int) int64 {
	return sumByLifecycle(g.Tasks, func(t *api.Task) Amount {
		if t.Resources == nil {
			return Amount{}
		}
		return Amount{MemoryMB: int64(of(t.Resources))}
	}).MemoryMB
}

// LoadOfAlloc is what the allocation, which has its job, takes.
func LoadOfAlloc(a *api.Allocation) Load {
	l := LoadOf(a.Group(), a.Name, a.AllocatedResources)
	if a.Job != nil {
		l.Priority = a.Job.Priority
	}
	return l
}

// LoadOf is what an allocation of the group with the name and these resources takes. Without the group all tasks
// are taken to run at once; without the name the host volumes of single allocations are left out.
func LoadOf(g *api.TaskGroup, name string, res *api.AllocatedResources) Load {
	if res == nil {
		return Load{}
	}
	var l Load
	if g != nil {
		l.Amount = sumByLifecycle(g.Tasks, func(t *api.Task) Amount { return amountOf(res.Tasks[t.Name]) })
	} else {
		for _, t := range res.Tasks {
			l.Amount = l.Add(amountOf(t))
		}
	}
	l.DiskMB += res.Shared.DiskMB
	for _, t := range res.Tasks {
		if t != nil && len(t.Cpu.ReservedCores) > 0 {
			l.CPU += t.Cpu.CpuShares
			l.own().Cores = append(l.own().Cores, t.Cpu.ReservedCores...)
		}
		if t != nil && len(t.Devices) > 0 {
			l.own().Devices = append(l.own().Devices, t.Devices...)
		}
	}
	if ports := res.Shared.Ports; len(ports) > 0 {
		l.own().Ports = make([]HostPort, len(ports))
		for i, p := range ports {
			l.own().Ports[i] = HostPort{p.HostIP, p.Value}
		}
	}
	if g != nil && len(g.Volumes) > 0 {
		if w := WritesOf(g, name); len(w) > 0 {
			l.own().Writes = w
		}
	}
	return l
}

func (l *Load) own() *Exclusive {
	if l.Exclusive == nil {
		l.Exclusive = &Exclusive{}
	}
	return l.Exclusive
}

// WritesOf are the host volumes that an allocation of the group with the name writes to. Without the name they are those that
// all allocations write to.
func WritesOf(g *api.TaskGroup, name string) []Write {
	var all []Write
	for _, v := range g.Volumes {
		if v == nil || v.Type != api.VolumeTypeHost || v.ReadOnly || v.PerAlloc && name == "" {
			continue
		}
		w := Write{v.SourceFor(name), v.AccessMode == accessSingleWriter}
		if i := slices.IndexFunc(all, func(o Write) bool { return o.Volume == w.Volume }); i >= 0 {
			all[i].Alone = all[i].Alone || w.Alone
			continue
		}
		all = append(all, w)
	}
	return all
}

// accessSingleWriter is the access mode of a host volume that one allocation may write to.
const accessSingleWriter = "single-node-single-writer"

// amountOf leaves the MHz of reserved cores out: a task has those from before its start to after its end.
func amountOf(t *api.AllocatedTaskResources) Amount {
	if t == nil {
		return Amount{}
	}
	a := Amount{CPU: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB}
	if len(t.Cpu.ReservedCores) > 0 {
		a.CPU = 0
	}
	return a
}

// sumByLifecycle is the most that runs at once: before, beside and after the main tasks.
func sumByLifecycle(tasks []*api.Task, of func(*api.Task) Amount) Amount {
	var before, beside, after Amount
	for _, t := range tasks {
		a := of(t)
		switch {
		case t.Lifecycle == nil || t.Lifecycle.Hook == api.TaskLifecycleHookPoststart:
			beside = beside.Add(a)
		case t.Lifecycle.Hook == api.TaskLifecycleHookPoststop:
			after = after.Add(a)
		case t.Lifecycle.Sidecar:
			before, beside = before.Add(a), beside.Add(a)
		default:
			before = before.Add(a)
		}
	}
	return before.max(beside).max(after)
}
