package find

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Volume finds a volume.
func Volume(ctx context.Context, s *session.Session, id string) (*api.VolumeStub, error) {
	found, _, err := s.Volumes(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying volumes", err)
	}
	return kind[api.VolumeStub]{"volume", func(v *api.VolumeStub) string { return v.ID }, VolumeTable}.one(id, found)
}

// VolumeTable lists volumes.
func VolumeTable(volumes []*api.VolumeStub) string {
	return table([]string{"ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode"}, volumes, func(v *api.VolumeStub) []string {
		return []string{v.ID, v.Name, v.Namespace, v.PluginID, fmt.Sprint(v.Schedulable), view.OrNone(string(v.AccessMode))}
	})
}

// HostVolume finds the host volume with the id or name, or the only one whose id begins so.
func HostVolume(ctx context.Context, s *session.Session, id string) (*api.HostVolumeStub, error) {
	found, _, err := s.HostVolumes(ctx, rest.Query{Prefix: id})
	if err == nil && len(found) == 0 {
		var all []*api.HostVolumeStub
		all, _, err = s.HostVolumes(ctx, rest.Query{})
		for _, v := range all {
			if v.Name == id {
				found = append(found, v)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	if err != nil {
		return nil, session.Failed("querying volumes", err)
	}
	return kind[api.HostVolumeStub]{"volume", func(v *api.HostVolumeStub) string { return v.ID }, HostVolumeTable}.one(id, found)
}

// HostVolumeTable lists host volumes.
func HostVolumeTable(volumes []*api.HostVolumeStub) string {
	return table([]string{"ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"}, volumes, func(v *api.HostVolumeStub) []string {
		return []string{v.ID, v.Name, v.Namespace, view.OrNone(v.PluginID), v.NodeID, v.NodePool, string(v.State)}
	})
}

// NodeOrGone returns the id of a node by its id, an id prefix or its name, as tables of volumes show it. If no such
// node exists, the ids that gone returns are searched, and a whole id is returned as it is. Anything else is refused:
// an unknown node holds nothing, which would look like success.
func NodeOrGone(ctx context.Context, s *session.Session, typed string, gone func() ([]string, error)) (string, error) {
	n, err := Node(ctx, s, typed)
	switch {
	case err == nil && n.ID == typed:
		return typed, nil
	case err != nil && !errors.Is(err, fault.NotFound):
		return "", err
	}
	ids := map[string]bool{}
	if err == nil {
		ids[n.ID] = true
	}
	all, _, err := s.Nodes(ctx, rest.Query{})
	if err != nil {
		return "", session.Failed("querying nodes", err)
	}
	for _, n := range all {
		if n.Name == typed {
			ids[n.ID] = true
		}
	}
	if len(ids) == 0 {
		holders, err := gone()
		if err != nil {
			return "", err
		}
		for _, id := range holders {
			if strings.HasPrefix(id, typed) {
				ids[id] = true
			}
		}
	}
	switch found := slices.Sorted(maps.Keys(ids)); len(found) {
	case 0:
		if _, err := uuid.Parse(typed); err == nil {
			return typed, nil
		}
		return "", fault.New(fault.NotFound, "No node with prefix, ID or name %q found", typed)
	case 1:
		return found[0], nil
	default:
		return "", fault.New(fault.Invalid, "%q matched multiple nodes: %s", typed, view.Inline(strings.Join(found, ", ")))
	}
}

// Plugin finds a CSI plugin.
func Plugin(ctx context.Context, s *session.Session, id string) (*api.PluginStub, error) {
	found, _, err := s.Plugins(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying plugins", err)
	}
	return kind[api.PluginStub]{"plugin", func(p *api.PluginStub) string { return p.ID }, PluginTable}.one(id, found)
}

// PluginTable lists CSI plugins.
func PluginTable(plugins []*api.PluginStub) string {
	return table([]string{"ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"}, plugins, func(p *api.PluginStub) []string {
		return []string{
			p.ID, p.Provider, fmt.Sprintf("%d/%d", p.ControllersHealthy, p.ControllersExpected),
			fmt.Sprintf("%d/%d", p.NodesHealthy, p.NodesExpected),
		}
	})
}
