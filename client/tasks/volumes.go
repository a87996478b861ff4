package tasks

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/fileowner"
)

// mounted returns an error when a volume that the task is to have is not mounted any more.
func (t *task) mounted(spec *api.Task) error {
	if len(spec.VolumeMounts) == 0 || t.g.conf.Mounted == nil {
		return nil
	}
	if err := t.g.conf.Mounted(); err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	return nil
}

// volumeMounts turns the task's volume_mount blocks into mounts of the allocation's volumes.
type volumeMounts struct{ *task }

func (volumeMounts) name() string { return "volumes" }

func (s volumeMounts) up(_ context.Context, a *attempt) error {
	if len(a.spec.VolumeMounts) > 0 && !a.driver.Capabilities().Mounts {
		return fault.New(fault.Invalid, "task %s: driver %s cannot mount volumes", s.task.name, a.driver.Name())
	}
	if err := s.mounted(a.spec); err != nil {
		return err
	}
	s.g.mu.Lock()
	have := s.g.mounts
	s.g.mu.Unlock()
	for _, vm := range a.spec.VolumeMounts {
		alias := a.env.Replace(vm.Volume)
		m, ok := have[alias]
		if !ok {
			return fault.New(fault.Invalid, "task %s: volume %q is not a volume of the group", s.task.name, alias)
		}
		m.Destination = a.env.Replace(vm.Destination)
		if m.Destination == "" {
			return fault.New(fault.Invalid, "task %s: mount of volume %q has no destination", s.task.name, alias)
		}
		m.ReadOnly = m.ReadOnly || vm.ReadOnly
		m.SubPath = a.env.Replace(vm.SubPath)
		if vm.Owner != "" {
			o, err := fileowner.Parse(vm.Owner)
			if err != nil {
				return fmt.Errorf("task %s: mount of volume %q: %w", s.task.name, alias, err)
			}
			m.ShownOwner = &o
		}
		if m.ShownOwner != nil && !a.driver.Capabilities().Owners {
			return fault.New(fault.Invalid, "task %s: driver %s cannot mount volume %q with another owner: leave out owner of volume_mount", s.task.name, a.driver.Name(), alias)
		}
		m.SELinuxLabel = vm.SELinuxLabel
		if vm.PropagationMode != "" {
			m.Propagation = vm.PropagationMode
		}
		a.mounts = append(a.mounts, m)
	}
	return nil
}
