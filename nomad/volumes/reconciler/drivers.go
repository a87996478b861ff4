package reconciler

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Validate asks a controller whether a volume can be used as asked.
func (r *Reconciler) Validate(ctx context.Context, req *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error) {
	out, err := call(ctx, r, wire.ControllerValidate, r.reading(req.PluginID, req.ExternalID, pluginview.Anything), req)
	return out, hidden(err, []map[string]string{req.Secrets})
}

// ListVolumes asks a controller for a page of the volumes at its provider.
func (r *Reconciler) ListVolumes(ctx context.Context, req *api.ControllerListRequest) (*api.ControllerListResponse, error) {
	return call(ctx, r, wire.ControllerList, r.reading(req.PluginID, "", pluginview.ListVolumes), req)
}

// ListSnapshots asks a controller for a page of the snapshots at its provider.
func (r *Reconciler) ListSnapshots(ctx context.Context, req *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error) {
	out, err := call(ctx, r, wire.ControllerSnapshotList, r.reading(req.PluginID, "", pluginview.ListSnapshots), req)
	return out, hidden(err, []map[string]string{req.Secrets})
}

// reading is how a controller is asked for what it knows.
func (r *Reconciler) reading(plugin, object string, c pluginview.Capability) ask {
	return ask{plugin: plugin, object: object, needs: c, limit: r.limits.ListTimeout}
}
