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

// ListExternal lists a page of a provider's volumes. What a driver returns beyond the requested page is kept: its
// token continues after all of it.
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
	if err := goesOn(r.NextToken, out.NextToken); err != nil {
		return nil, fmt.Errorf("list volumes of plugin %q: %w", r.PluginID, err)
	}
	rows := seen(ctx, s.state.Read(), r.PluginID, out.Volumes, func(v *api.VolumeExternal) string { return v.ExternalID })
	return &api.VolumeListExternalResponse{Volumes: rows, NextToken: out.NextToken}, nil
}

// goesOn rejects a driver that returns the same page token twice, because a caller that reads all pages would never
// end.
func goesOn(token, next string) error {
	if next != "" && next == token {
		return fault.New(fault.Internal, "its driver goes on with the same page")
	}
	return nil
}

func entries(perPage int32) int32 {
	if perPage <= 0 || perPage > pageMax {
		return pageMax
	}
	return perPage
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
