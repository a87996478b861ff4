package api

import (
	"slices"
	"time"
)

// AllocState is one change of an allocation's client status, kept for disconnects.
type AllocState struct {
	Field string    `msg:",omitempty"`
	Value string    `msg:",omitempty"`
	Time  time.Time `msg:",omitempty"`
}

// ServerTerminal reports whether the servers want the allocation stopped.
func (a *Allocation) ServerTerminal() bool {
	return a.DesiredStatus == AllocDesiredStatusStop || a.DesiredStatus == AllocDesiredStatusEvict
}

// ClientTerminal reports whether the allocation has ended on its node, or its node is lost.
func (a *Allocation) ClientTerminal() bool {
	switch a.ClientStatus {
	case AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost:
		return true
	}
	return false
}

// Terminal reports whether the allocation has ended on either side.
func (a *Allocation) Terminal() bool { return a.ServerTerminal() || a.ClientTerminal() }

// Group returns the allocation's task group, or nil.
func (a *Allocation) Group() *TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.Group(a.TaskGroup)
}

// Group returns the named group, or nil.
func (j *Job) Group(name string) *TaskGroup {
	for _, g := range j.TaskGroups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Task returns the named task, or nil.
func (g *TaskGroup) Task(name string) *Task {
	for _, t := range g.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Terminal reports whether nothing more happens to the evaluation.
func (e *Evaluation) Terminal() bool {
	switch e.Status {
	case EvalStatusComplete, EvalStatusFailed, EvalStatusCancelled:
		return true
	}
	return false
}

// PlacedAll reports whether the evaluation ended with nothing left to place.
func (e *Evaluation) PlacedAll() bool {
	return e.Status == EvalStatusComplete && e.BlockedEval == "" && len(e.FailedTGAllocs) == 0
}

// Port returns the port with that label, of the group or of the named task; nil when there is none.
func (a *Allocation) Port(task, label string) *PortMapping {
	res := a.AllocatedResources
	if res == nil || label == "" {
		return nil
	}
	for _, p := range res.Shared.Ports {
		if p.Label == label {
			return &p
		}
	}
	return res.Tasks[task].port(label)
}

// OwnAddress returns the address of the allocation that an address mode of a service, alloc or alloc_ipv6, stands for; empty
// when there is none.
func (a *Allocation) OwnAddress(mode string) string {
	switch n := a.NetworkStatus; {
	case n == nil:
		return ""
	case mode == AddressModeAlloc6:
		return n.AddressIPv6
	default:
		return n.Address
	}
}

// Inside returns the port within the network of the allocation.
func (p *PortMapping) Inside() int {
	if p.To > 0 {
		return p.To
	}
	return p.Value
}

// port returns the port of a task with that label; nil when there is none.
func (r *AllocatedTaskResources) port(label string) *PortMapping {
	if r == nil {
		return nil
	}
	for _, n := range r.Networks {
		all := slices.Concat(n.ReservedPorts, n.DynamicPorts)
		if i := slices.IndexFunc(all, func(p Port) bool { return p.Label == label }); i >= 0 {
			return &PortMapping{Label: label, HostIP: n.IP, Value: all[i].Value}
		}
	}
	return nil
}
