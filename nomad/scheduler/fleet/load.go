package fleet

import "github.com/open-nomad/open-nomad/api"

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
	Ports []int
}

// AskOf is what a group asks for, its tasks counted by their life cycle.
func AskOf(g *api.TaskGroup) Amount {
	sum := sumByLifecycle(g.Tasks, func(t *api.Task) Amount {
		if t.Resources == nil {
			return Amount{}
		}
		return Amount{CPU: int64(t.Resources.CPU), MemoryMB: int64(t.Resources.MemoryMB + t.Resources.SecretsMB)}
	})
	if g.EphemeralDisk != nil {
		sum.DiskMB += int64(g.EphemeralDisk.SizeMB)
	}
	return sum
}

// LoadOf is what an allocation of the group with these resources takes. Without the group all tasks
// are taken to run at once.
func LoadOf(g *api.TaskGroup, res *api.AllocatedResources) Load {
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
	for _, p := range res.Shared.Ports {
		l.Ports = append(l.Ports, p.Value)
	}
	return l
}

func amountOf(t *api.AllocatedTaskResources) Amount {
	if t == nil {
		return Amount{}
	}
	return Amount{CPU: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB}
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
