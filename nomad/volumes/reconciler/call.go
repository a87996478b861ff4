package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// ask is how a controller of a plugin is to be called.
type ask struct {
	plugin string
	// object is what the call is about: calls about the same one go to the same controller.
	object string
	needs  pluginview.Capability
	// limit bounds the call at one controller.
	limit time.Duration
	// kind names calls that share places on the controller's host; empty means without bound.
	kind  string
	width width
	// lane is the node that the call attaches or detaches; its calls go one after the other.
	lane string
}

// call calls a controller of the plugin, and the next one when the plugin was not reached there, cannot do what is
// asked, or hung: two controllers are never at work on one call.
func call[Req, Resp any](ctx context.Context, r *Reconciler, m wire.Method[Req, Resp], a ask, req *Req) (*Resp, error) {
	ids, err := r.controllers(a)
	if err != nil {
		return nil, err
	}
	var before []error
	lost := false
	for i, id := range ids {
		if i > 0 {
			r.begin(ctx, "another controller for "+a.kind+" "+a.object+" "+a.lane)
		}
		resp, err := callController(ctx, r, m, a, id, req)
		if err == nil {
			return resp, nil
		}
		f := failed(err)
		lost = lost || f.uncertain
		r.troubled.note(a.plugin, a.object, r.now())
		if f.hung || f.lost {
			r.flights.avoid(id, a.plugin, r.now().Add(avoidFor))
		}
		if i == len(ids)-1 || !f.elsewhere() || ctx.Err() != nil {
			return nil, last(before, err, lost)
		}
		before = append(before, fmt.Errorf("controller on node %s: %w", id, err))
	}
	return nil, nil // not reached: there is a controller
}

// avoidFor is how long a controller that did not respond is called after the others.
const avoidFor = time.Minute

// last is the error of the last controller that was called, with the errors of the others.
func last(before []error, err error, lost bool) error {
	if len(before) > 0 {
		err = fmt.Errorf("%w (before that: %s)", err, errors.Join(before...).Error())
	}
	if lost && !failed(err).uncertain {
		err = &lostAnswer{err}
	}
	return err
}

// elsewhere reports whether another controller may be called at once: this one was not reached, or its call was ended.
// One whose reply was lost on the way may still be at work.
func (f failure) elsewhere() bool {
	//exhaustive:enforce
	switch f.verdict() {
	case "":
		return f.hung || f.cut || !f.lost && errors.Is(f.err, fault.Unavailable)
	case fault.VerdictRetrySoon, fault.VerdictChanged:
		return true
	case fault.VerdictRetry, fault.VerdictFinal, fault.VerdictUncertain, fault.VerdictVerify, fault.VerdictLimit:
	}
	return f.hung
}

// controllers lists whom to ask, those that hung of late at the end.
func (r *Reconciler) controllers(a ask) ([]string, error) {
	ids, err := pluginview.Controllers(r.state.Read(), a.plugin, a.object, a.needs)
	switch {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, fault.Wrap(fault.Invalid, &notOffered{a.plugin, a.needs.Name})
	}
	now := r.now()
	slices.SortStableFunc(ids, func(x, y string) int {
		switch a, b := r.flights.avoided(x, a.plugin, now), r.flights.avoided(y, a.plugin, now); {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	})
	return ids, nil
}

type notOffered struct{ plugin, capability string }

func (n *notOffered) Error() string {
	return fmt.Sprintf("no healthy controller of CSI plugin %q supports %s", n.plugin, n.capability)
}

func (n *notOffered) Is(target error) bool { return target == errNotOffered }

func callController[Req, Resp any](ctx context.Context, r *Reconciler, m wire.Method[Req, Resp], a ask, host string, req *Req) (*Resp, error) {
	leave, err := r.enter(ctx, a, host)
	if err != nil {
		return nil, err
	}
	defer leave()
	return callNode(ctx, r, m, flight{node: host, plugin: a.plugin}, a.limit, req)
}

// callNode asks a node, and ends the call when the node or the controller there goes away.
func callNode[Req, Resp any](ctx context.Context, r *Reconciler, m wire.Method[Req, Resp], to flight, limit time.Duration, req *Req) (*Resp, error) {
	caller, err := r.nodes.Node(to.node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, land := r.flights.begin(ctx, r.state, to)
	defer land()
	defer r.measure(ctx, r.now())
	resp, err := m.Call(ctx, caller, req)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(context.Cause(ctx), errGone):
		err = fault.New(fault.Unavailable, "%s %w", to, errGone)
	case errors.Is(context.Cause(ctx), errGaveWay):
		err = fault.New(fault.Unavailable, "the call to %s was %w", to, errGaveWay)
	case errors.Is(err, context.DeadlineExceeded):
		err = fault.Wrap(fault.Timeout, err)
	}
	return nil, sent(err)
}

// enter waits for a place at the controller's host, and for the turn of the node that is attached or detached.
// Calls of a node that has slow ones have places of their own, so that they take none from other nodes. Calls about
// what failed of late stand behind the others.
func (r *Reconciler) enter(ctx context.Context, a ask, host string) (leave func(), err error) {
	if a.kind == "" {
		return func() {}, nil
	}
	again := r.troubled.lately(a.plugin, a.object, r.now())
	name, leaveLane := a.plugin+" "+a.kind+" at "+host, func() {}
	if a.lane != "" {
		var slow bool
		leaveLane, slow, err = r.places.enter(ctx, a.plugin+" of "+a.lane, width{usual: 1, beside: r.limits.Beside, slowAfter: r.limits.TurnAfter}, again)
		if err != nil {
			return nil, err
		}
		if slow {
			name += " next to slow calls"
		}
	}
	leaveHost, _, err := r.places.enter(ctx, name, a.width, again)
	if err != nil {
		leaveLane()
		return nil, err
	}
	return func() { leaveHost(); leaveLane() }, nil
}

// Validate asks a controller whether a volume can be used as requested.
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

// reading describes a call that changes nothing.
func (r *Reconciler) reading(plugin, object string, c pluginview.Capability) ask {
	return ask{plugin: plugin, object: object, needs: c, limit: r.limits.ListTimeout}
}
