package client

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// mounts gives allocations their volumes: CSI ones by the volume room, host ones by the configuration.
type mounts struct {
	csi  *volumes.Service
	host map[string]*api.HostVolumeInfo
}

// Up mounts the volumes of the allocation's group.
func (m mounts) Up(ctx context.Context, a *api.Allocation) (map[string]driver.Mount, error) {
	out := map[string]driver.Mount{}
	for name, req := range a.Group().Volumes {
		if req.Type != api.VolumeTypeHost {
			continue
		}
		v := m.host[req.Source]
		if v == nil {
			return nil, fault.New(fault.NotFound, "this node has no host volume %q", req.Source)
		}
		out[name] = driver.Mount{Source: v.Path, ReadOnly: v.ReadOnly || req.ReadOnly}
	}
	csi, err := m.csi.Up(ctx, a)
	if err != nil {
		return nil, err
	}
	for name, v := range csi {
		out[name] = driver.Mount{Source: v.Source, ReadOnly: v.ReadOnly}
	}
	return out, nil
}

// Down unmounts them.
func (m mounts) Down(ctx context.Context, allocID string) error { return m.csi.Down(ctx, allocID) }

// plugin returns what a csi_plugin task needs.
func (c *Client) plugin(a *api.Allocation, t *api.Task, isolated bool) (tasks.Plugin, error) {
	p, err := c.volumes.PluginTask(a, t, isolated)
	if err != nil {
		return nil, err
	}
	return p, nil
}
