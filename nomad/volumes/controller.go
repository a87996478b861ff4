package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// controllers lists the nodes that host a healthy controller of the plugin, always in the same order:
// many drivers take one instance for the leader.
func controllers(tx *state.Txn, plugin string) ([]string, error) {
	var ids, why []string
	for n := range tx.NodesByPlugin(plugin) {
		i := n.CSIControllerPlugins[plugin]
		switch {
		case i == nil || i.ControllerInfo == nil:
		case n.Status != api.NodeStatusReady:
			why = append(why, fmt.Sprintf("node %s is %s", n.ID, n.Status))
		case !i.Healthy:
			why = append(why, fmt.Sprintf("unhealthy on node %s: %s", n.ID, i.HealthDescription))
		default:
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	if len(ids) > 0 {
		return ids, nil
	}
	if len(why) == 0 {
		why = []string{"no node reports one"}
	}
	return nil, fault.New(fault.Unavailable, "CSI plugin %q has no healthy controller (%s)", plugin, strings.Join(why, "; "))
}

// capable reports whether a healthy controller says that it can do something.
func capable(tx *state.Txn, plugin string, can func(*api.CSIControllerInfo) bool) (bool, error) {
	ids, err := controllers(tx, plugin)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(ids, func(id string) bool {
		return can(tx.Node(id).CSIControllerPlugins[plugin].ControllerInfo)
	}), nil
}

// needs refuses when the plugin's controllers cannot do what is asked.
func needs(tx *state.Txn, plugin, what string, can func(*api.CSIControllerInfo) bool) error {
	ok, err := capable(tx, plugin, can)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Invalid, "CSI plugin %q does not support %s", plugin, what)
	}
	return nil
}

// call asks a controller of the plugin, the next one only when one cannot be reached.
func call[Req, Resp any](ctx context.Context, s *Service, m wire.Method[Req, Resp], plugin string, limit time.Duration, req *Req) (*Resp, error) {
	ids, err := controllers(s.state.Read(), plugin)
	if err != nil {
		return nil, err
	}
	var unreached []error
	for _, id := range ids {
		resp, err := callNode(ctx, s, m, id, limit, req)
		if err == nil {
			return resp, nil
		}
		if !errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return nil, err
		}
		unreached = append(unreached, fmt.Errorf("controller on node %s: %w", id, err))
	}
	return nil, fault.Wrap(fault.Unavailable, errors.Join(unreached...))
}

func callNode[Req, Resp any](ctx context.Context, s *Service, m wire.Method[Req, Resp], node string, limit time.Duration, req *Req) (*Resp, error) {
	to, err := s.nodes.Node(node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := m.Call(ctx, to, req)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fault.Wrap(fault.Timeout, err)
	}
	return resp, err
}

// final reports whether a driver's answer stays the same however often it is asked.
func final(err error) bool {
	switch fault.Of(err) {
	case fault.Invalid, fault.NotFound, fault.Denied, fault.Conflict, fault.Exhausted, fault.TooLarge, fault.Unimplemented:
		return true
	}
	return false
}
