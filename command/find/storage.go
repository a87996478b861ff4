package find

import (
	"context"
	"errors"
	"fmt"

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

// NodeOrTyped is the id of a node that may be gone for good: what was typed is taken as it is when there is none.
func NodeOrTyped(ctx context.Context, s *session.Session, typed string) (string, error) {
	n, err := Node(ctx, s, typed)
	switch {
	case err == nil:
		return n.ID, nil
	case errors.Is(err, fault.NotFound):
		return typed, nil
	}
	return "", err
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
