package volumes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// pageMax bounds one page of a provider's list.
const pageMax = 1000

// ListExternal lists a page of a provider's volumes.
func (s *Service) ListExternal(ctx context.Context, r *api.VolumeExternalListRequest) (*api.VolumeListExternalResponse, error) {
	if err := s.ableTo(r.PluginID, pluginview.ListVolumes); err != nil {
		return nil, err
	}
	out, err := s.drivers.ListVolumes(ctx, &api.ControllerListRequest{
		ControllerCall: api.ControllerCall{PluginID: r.PluginID}, MaxEntries: entries(r.PerPage), Token: r.NextToken,
	})
	if err != nil {
		return nil, fmt.Errorf("list volumes of plugin %q: %w", r.PluginID, err)
	}
	return &api.VolumeListExternalResponse{Volumes: page(out.Volumes, r.PerPage), NextToken: out.NextToken}, nil
}

func entries(perPage int32) int32 {
	if perPage <= 0 || perPage > pageMax {
		return pageMax
	}
	return perPage
}

// page cuts what a driver answered beyond the page that it was asked for.
func page[T any](list []T, perPage int32) []T {
	if perPage > 0 && len(list) > int(perPage) {
		return list[:perPage]
	}
	return list
}

// ableTo checks that the plugin exists and that its controllers can do what is asked.
func (s *Service) ableTo(plugin string, c pluginview.Capability) error {
	if plugin == "" {
		return fault.New(fault.Invalid, "missing plugin ID")
	}
	tx := s.state.Read()
	if pluginview.Of(tx, plugin) == nil {
		return fault.New(fault.NotFound, "no CSI plugin named: %s", plugin)
	}
	return pluginview.Needs(tx, plugin, c)
}
