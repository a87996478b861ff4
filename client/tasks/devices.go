package tasks

import (
	"context"
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
)

// Devices prepares the devices that the scheduler gave to tasks. A user is a task of an allocation.
type Devices interface {
	// Reserve returns what the task needs to use its devices, and notes it as their user. It waits, bounded.
	Reserve(ctx context.Context, user string, list []*api.AllocatedDeviceResource) (*device.Reservation, error)
	// Hold notes a task that runs already as the user of its devices.
	Hold(user string, list []*api.AllocatedDeviceResource)
	// Release notes that the task uses no device any more.
	Release(user string)
	// Lost waits until a device is lost for good, and returns why; it is empty when ctx ends first.
	Lost(ctx context.Context, list []*api.AllocatedDeviceResource) string
}

// reservedDevices reserves the devices of the task, and fails the task when one is lost.
type reservedDevices struct{ *task }

func (reservedDevices) name() string { return "devices" }

func (s reservedDevices) user() string { return s.g.conf.Alloc.ID + "/" + s.task.name }

// list lists the devices that the scheduler gave to the task.
func (s reservedDevices) list(a *api.Allocation) []*api.AllocatedDeviceResource {
	if a == nil || a.AllocatedResources == nil || a.AllocatedResources.Tasks[s.task.name] == nil {
		return nil
	}
	return a.AllocatedResources.Tasks[s.task.name].Devices
}

func (s reservedDevices) up(ctx context.Context, a *attempt) error {
	list := s.list(a.alloc)
	if len(list) == 0 {
		return nil
	}
	if s.g.conf.Devices == nil {
		return fault.New(fault.Unimplemented, "task %s: this node has no devices", s.task.name)
	}
	r, err := s.g.conf.Devices.Reserve(ctx, s.user(), list)
	if err != nil {
		return err
	}
	if len(r.Mounts)+len(r.Devices) > 0 && !a.driver.Capabilities().Mounts {
		return fault.New(fault.Invalid, "task %s: its device needs mounts or device nodes, which driver %s does not give to tasks", s.task.name, a.spec.Driver)
	}
	env := maps.Clone(a.extraEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, r.Envs)
	a.extraEnv, a.devices = env, r.Devices
	a.mounts = append(a.mounts, r.Mounts...)
	return nil
}

func (s reservedDevices) resume(_ context.Context, a *attempt) {
	if list := s.list(a.alloc); len(list) > 0 && s.g.conf.Devices != nil {
		s.g.conf.Devices.Hold(s.user(), list)
	}
}

func (s reservedDevices) attend(ctx context.Context, a *attempt) {
	list := s.list(a.alloc)
	if len(list) == 0 || s.g.conf.Devices == nil {
		return
	}
	if why := s.g.conf.Devices.Lost(ctx, list); why != "" {
		s.askOnce(restartRequest{reason: why, counted: true, fatal: true, kind: eventDeviceLost})
	}
}

func (s reservedDevices) down(_ *attempt, left bool) {
	if s.g.conf.Devices != nil && !left {
		s.g.conf.Devices.Release(s.user())
	}
}
