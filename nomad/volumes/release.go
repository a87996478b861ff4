package volumes

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// lookRelease helps a claim whose node should unmount: it gives up a node that is lost, and asks one
// that is there but forgot to report.
func (s *Service) lookRelease(ctx context.Context, k key, t tries) time.Time {
	var later time.Time
	next := s.doAll(ctx, t, func() []job {
		later = time.Time{}
		tx := s.state.Read()
		c := tx.Claim(k.a, k.b, k.c)
		if c == nil || c.State != api.ClaimReleasing {
			return nil
		}
		var due []job
		for _, o := range s.options(tx, c) {
			switch {
			case !o.at.After(s.now()):
				due = append(due, o.job)
			case later.IsZero() || o.at.Before(later):
				later = o.at
			}
		}
		return due
	})
	if next.IsZero() || !later.IsZero() && later.Before(next) {
		return later
	}
	return next
}

// option is a way to end a claim, and when it may be taken.
type option struct {
	job job
	at  time.Time
}

// options lists what would end the claim; none while only its node can.
func (s *Service) options(tx *state.Txn, c *api.VolumeClaim) []option {
	n := tx.Node(c.NodeID)
	if lost(n) {
		return s.lostOptions(tx, n, c)
	}
	a := tx.Alloc(c.AllocID)
	if n.Status == api.NodeStatusDisconnected || a != nil && !a.ClientTerminal() {
		return nil
	}
	since := c.Since
	if a != nil {
		since = max(since, a.ModifyTime)
	}
	return []option{{
		job{name: "unmount on " + c.NodeID, do: s.nudge(c), failed: s.unmountFailed(c)},
		time.Unix(0, since).Add(s.limits.NudgeAfter),
	}}
}

// nudge asks the node to unmount and takes its yes for the report.
func (s *Service) nudge(c *api.VolumeClaim) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.unmount(ctx, c); err != nil {
			return err
		}
		return s.record(ctx, &Report{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID})
	}
}

func (s *Service) unmount(ctx context.Context, c *api.VolumeClaim) error {
	_, err := callNode(ctx, s, wire.NodeVolumeDetach, c.NodeID, s.limits.AttachTimeout, &api.NodeVolumeDetachRequest{
		Namespace: c.Namespace, VolumeID: c.VolumeID, ExternalID: c.ExternalID, PluginID: c.PluginID, AllocID: c.AllocID,
	})
	if err != nil {
		return fmt.Errorf("unmount on node %s: %w", c.NodeID, err)
	}
	return nil
}

func (s *Service) unmountFailed(c *api.VolumeClaim) func(context.Context, error, try) error {
	return func(ctx context.Context, err error, _ try) error {
		now := s.state.Read().Claim(c.Namespace, c.VolumeID, c.AllocID)
		if now == nil || now.LastError == err.Error() {
			return nil
		}
		return s.record(ctx, &Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID, Reason: err.Error(),
		})
	}
}
