package tasks

import (
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// eventDriver is the type of events that drivers report.
const eventDriver = "Driver"

// Network is the network of an allocation as its tasks see it.
type Network struct {
	// Namespace is the path of the network namespace; empty is that of the host. Hostname is empty for that of the host.
	Namespace, Hostname string
	// Files replace files of the host, such as resolv.conf.
	Files []driver.Mount
}

// describeNetwork adds to a task what drivers that isolate need to know: the ports, the node's name and size, and a way to
// report events.
func (t *task) describeNetwork(job *driver.Task, a *api.Allocation, isolation driver.Isolation) {
	job.Event = func(text string) { t.emit(driverMessage(text)) }
	if n := t.g.conf.Node(); n != nil {
		job.NodeName = n.Name
		if n.NodeResources != nil {
			job.Resources.NodeCPUShares = n.NodeResources.Cpu.CpuShares
		}
	}
	if g := a.Group(); g != nil && len(g.Networks) > 0 {
		job.NetworkMode = g.Networks[0].Mode
	}
	if t.g.conf.Network != nil {
		n := t.g.conf.Network()
		if isolation == driver.IsolationImage { // links of the host do not apply
			n.Files = slices.Clone(n.Files)
			for i, f := range n.Files {
				n.Files[i].Destination = filepath.Join("/etc", filepath.Base(f.Source))
			}
		}
		job.Network, job.Hostname, job.Mounts = n.Namespace, n.Hostname, slices.Concat(n.Files, job.Mounts)
	}
	if a.AllocatedResources == nil {
		return
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		job.Ports = append(job.Ports, driver.Port{Label: p.Label, HostIP: p.HostIP, Value: p.Value, To: p.To})
	}
	own := a.AllocatedResources.Tasks[t.name]
	if own == nil {
		return
	}
	for _, n := range own.Networks {
		for _, list := range [][]api.Port{n.ReservedPorts, n.DynamicPorts} {
			for _, p := range list {
				job.Ports = append(job.Ports, driver.Port{Label: p.Label, HostIP: n.IP, Value: p.Value, To: p.To})
			}
		}
	}
}

func driverMessage(text string) *api.TaskEvent {
	e := event(eventDriver, text)
	e.TaskEventCause, e.Details["driver_message"] = &api.TaskEventCause{DriverMessage: text}, text
	return e
}
