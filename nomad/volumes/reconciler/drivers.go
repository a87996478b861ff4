package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Validate asks a controller whether a volume can be used as asked. While it is not known whose volume it is, and the plugin
// has controllers of several drivers, all of them are asked: it is of the one that confirms it.
func (r *Reconciler) Validate(ctx context.Context, req *api.ControllerValidateRequest) (out *api.ControllerValidateResponse, err error) {
	drivers := ledger.Drivers(r.state.Read(), req.PluginID)
	if req.Provider != "" || len(drivers) < 2 {
		return r.validate(ctx, req)
	}
	for _, name := range drivers {
		of := *req
		of.Provider = name
		answer, failure := r.validate(ctx, &of)
		switch {
		case failure != nil && failed(failure).open(): // it may have the volume
			return nil, fmt.Errorf("driver %q: %w", name, failure)
		case failure != nil:
			err = errors.Join(err, fmt.Errorf("driver %q: %w", name, failure))
		case answer.Validated && out != nil && out.Validated && out.Provider != cmp.Or(answer.Provider, name):
			return nil, fault.New(fault.Conflict, "CSI plugin %q has controllers of several drivers, and %q and %q have a volume %q: ask again when there is one",
				req.PluginID, out.Provider, name, req.ExternalID)
		case answer.Validated:
			out = answer
			out.Provider = cmp.Or(out.Provider, name)
		case out == nil:
			out = answer
		}
	}
	if out != nil {
		return out, nil
	}
	return nil, err
}

func (r *Reconciler) validate(ctx context.Context, req *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error) {
	how := r.reading(req.PluginID, req.ExternalID, pluginview.Anything)
	how.of = req.Provider
	out, err := call(ctx, r, wire.ControllerValidate, how, req)
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
