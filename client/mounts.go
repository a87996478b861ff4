package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/hostvolumes"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// restoreWait is how long an allocation waits for the host volumes of an earlier agent process.
const restoreWait = 90 * time.Second

// mounts gives one allocation its volumes: CSI ones and host ones by their services.
type mounts struct {
	csi   *volumes.Service
	host  *hostvolumes.Service
	alloc *api.Allocation
	// refuse reports to the servers that the allocation does not use a volume.
	refuse func(ctx context.Context, volumeID, use string) error
	// mounted is set when the volume service has mounted everything, and so will report its end.
	mounted bool
}

// Up mounts the volumes of the allocation's group.
func (m *mounts) Up(ctx context.Context, a *api.Allocation) (map[string]driver.Mount, error) {
	find := func(name string) (*api.HostVolumeInfo, error) {
		ctx, cancel := context.WithTimeout(ctx, restoreWait)
		defer cancel()
		return m.host.Find(ctx, a.Namespace, name)
	}
	return m.all(a, find, func() (map[string]volumes.Mount, error) { return m.csi.Up(ctx, a) })
}

// Adopt returns the mounts of an earlier agent process.
func (m *mounts) Adopt(a *api.Allocation) (map[string]driver.Mount, error) {
	find := func(name string) (*api.HostVolumeInfo, error) { return m.host.Adopt(a.Namespace, name) }
	return m.all(a, find, func() (map[string]volumes.Mount, error) { return m.csi.Adopt(a) })
}

func (m *mounts) all(a *api.Allocation, find func(string) (*api.HostVolumeInfo, error), mounted func() (map[string]volumes.Mount, error)) (map[string]driver.Mount, error) {
	out := map[string]driver.Mount{}
	for name, req := range a.Group().Volumes {
		if req.Type != api.VolumeTypeHost {
			continue
		}
		v, err := find(req.SourceFor(a.Name))
		if err != nil {
			return nil, err
		}
		out[name] = driver.Mount{Source: v.Path, ReadOnly: v.ReadOnly || req.ReadOnly}
	}
	csi, err := mounted()
	if err != nil {
		return nil, err
	}
	m.mounted = true
	for name, v := range csi {
		out[name] = driver.Mount{Source: v.Source, ReadOnly: v.ReadOnly, Owner: v.Owner}
	}
	return out, nil
}

// Down unmounts them. The claims of an allocation that was stopped before it mounted anything also wait for a report of
// the node, and only Down sends it.
func (m *mounts) Down(ctx context.Context, allocID string) error {
	if err := m.csi.Down(ctx, allocID); err != nil || m.mounted {
		return err
	}
	var errs []error
	for _, u := range m.alloc.VolumeUses() {
		errs = append(errs, m.refuse(ctx, u.VolumeID, u.Name))
	}
	return errors.Join(errs...)
}

// mounts makes the volumes of one allocation.
func (c *Client) mounts(a *api.Allocation) *mounts {
	return &mounts{csi: c.volumes, host: c.hostVolumes, alloc: a, refuse: func(ctx context.Context, volumeID, use string) error {
		ctx, cancel := context.WithTimeout(ctx, callWait)
		defer cancel()
		_, err := wire.VolumeUnpublish.Call(ctx, c.conf.Servers, &api.VolumeUnpublishRequest{
			VolumeID: volumeID, AllocID: a.ID, Use: use, NodeID: c.id, NodeSecret: c.credential(),
			WriteRequest: api.WriteRequest{Region: c.conf.Region, Namespace: a.Namespace},
		})
		if err != nil && !errors.Is(err, fault.NotFound) {
			return fmt.Errorf("release volume %q: %w", volumeID, err)
		}
		return nil
	}}
}

// plugin returns what a csi_plugin task needs.
func (c *Client) plugin(a *api.Allocation, t *api.Task, isolated bool) (tasks.Plugin, error) {
	p, err := c.volumes.Plugins().Task(a, t, isolated)
	if err != nil {
		return nil, err
	}
	return p, nil
}
