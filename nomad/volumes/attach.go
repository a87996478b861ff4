package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// job is one call that the state asks for. name is new for every intent.
type job struct {
	name string
	do   func(context.Context) error
	// failed records the failure; it is told which try that was and when the next one is due.
	failed func(context.Context, error, try) error
}

// lookExternal makes the calls that one external volume needs, one after the other.
func (s *Service) lookExternal(ctx context.Context, k key, t tries) time.Time {
	return s.doAll(ctx, t, func() []job {
		tx := s.state.Read()
		var jobs []job
		for a := range tx.AttachmentsOf(k.a, k.b) {
			switch a.State {
			case api.AttachmentUnpublishing:
				jobs = append([]job{s.unpublishJob(a)}, jobs...)
			case api.AttachmentPublishing:
				if a.Refused == 0 {
					jobs = append(jobs, s.publishJob(a))
				}
			}
		}
		for v := range tx.VolumesByPlugin(k.a) {
			if v.Provision.ExternalID == k.b && pending(v) {
				jobs = append(jobs, s.volumeJobs(tx, v)...)
			}
		}
		return jobs
	})
}

// doAll does the jobs that are due until none is left, and answers when the next one is. Jobs are
// read again after each call: its answer may have made others needless.
func (s *Service) doAll(ctx context.Context, t tries, read func() []job) time.Time {
	for ctx.Err() == nil {
		var next time.Time
		var due *job
		for _, j := range read() {
			at := t[j.name].due
			if !at.After(s.now()) {
				due = &j
				break
			}
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
		if due == nil {
			return next
		}
		s.do(ctx, t, *due)
	}
	return time.Time{}
}

func (s *Service) do(ctx context.Context, t tries, j job) {
	err := j.do(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	next := t.failed(j.name, s.now(), s.limits.RetryMin, s.limits.RetryMax, func(d time.Duration) time.Duration { return s.chance(j.name, d) })
	s.log.Debug("call failed", "call", j.name, "try", next.failed, "next", next.due, "error", err)
	if errors.Is(err, errReplaced) {
		return
	}
	if err := j.failed(ctx, err, next); err != nil && !errors.Is(err, errReplaced) && ctx.Err() == nil {
		s.log.Warn("failed call was not recorded", "call", j.name, "error", err)
	}
}

// errReplaced marks an answer that the state refused: its intent was replaced meanwhile.
var errReplaced = errors.New("too late")

// record proposes the answer of a call.
func (s *Service) record(ctx context.Context, c fsm.Command) error {
	_, err := s.raft.Propose(ctx, c)
	if errors.Is(err, fault.Conflict) || errors.Is(err, fault.NotFound) {
		return fmt.Errorf("%w: %w", errReplaced, err)
	}
	return err
}

func (s *Service) publishJob(a *api.VolumeAttachment) job {
	return job{
		name:   fmt.Sprintf("publish %s to %s by %d", a.ExternalID, a.NodeID, a.Fence),
		do:     func(ctx context.Context) error { return s.publish(ctx, a) },
		failed: s.publishFailed(a),
	}
}

func (s *Service) publish(ctx context.Context, a *api.VolumeAttachment) error {
	result := attached(a)
	attaches, err := capable(s.state.Read(), a.PluginID, func(c *api.CSIControllerInfo) bool { return c.SupportsAttachDetach })
	if err != nil {
		return err
	}
	if !attaches {
		// It was not known whether the driver attaches when the claim was taken.
		result.Published = true
		return s.record(ctx, result)
	}
	if a.ProviderNodeID == "" {
		result.Prepare = true
		return s.record(ctx, result)
	}
	leave, err := s.enter(ctx, "attach", a, s.limits.Attaching)
	if err != nil {
		return err
	}
	defer leave()
	out, err := call(ctx, s, wire.ControllerPublish, a.PluginID, s.limits.AttachTimeout, &api.ControllerPublishRequest{
		ControllerCall: api.ControllerCall{PluginID: a.PluginID, Fence: a.Fence},
		ExternalID:     a.ExternalID, ProviderNodeID: a.ProviderNodeID, AccessMode: a.AccessMode,
		AttachmentMode: a.AttachmentMode, MountOptions: a.MountOptions, ReadOnly: a.ReadOnly,
		Secrets: a.Secrets, Context: a.Context,
	})
	if err != nil {
		return fmt.Errorf("attach to node %s: %w", a.NodeID, err)
	}
	result.Published, result.PublishContext = true, out.PublishContext
	return s.record(ctx, result)
}

func (s *Service) unpublishJob(a *api.VolumeAttachment) job {
	return job{
		name:   fmt.Sprintf("unpublish %s from %s by %d", a.ExternalID, a.NodeID, a.Fence),
		do:     func(ctx context.Context) error { return s.unpublish(ctx, a) },
		failed: s.attachFailed(a),
	}
}

func (s *Service) unpublish(ctx context.Context, a *api.VolumeAttachment) error {
	if a.ProviderNodeID == "" {
		// Without the node's id the driver was never called.
		return s.record(ctx, attached(a))
	}
	leave, err := s.enter(ctx, "detach", a, s.limits.Detaching)
	if err != nil {
		return err
	}
	defer leave()
	_, err = call(ctx, s, wire.ControllerUnpublish, a.PluginID, s.limits.AttachTimeout, &api.ControllerUnpublishRequest{
		ControllerCall: api.ControllerCall{PluginID: a.PluginID, Fence: a.Fence},
		ExternalID:     a.ExternalID, ProviderNodeID: a.ProviderNodeID, Secrets: a.Secrets,
	})
	if errors.Is(err, fault.Unimplemented) && s.neverAttaches(a.PluginID) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("detach from node %s: %w", a.NodeID, err)
	}
	return s.record(ctx, attached(a))
}

// neverAttaches reports that every healthy controller says so.
func (s *Service) neverAttaches(plugin string) bool {
	attaches, err := capable(s.state.Read(), plugin, func(c *api.CSIControllerInfo) bool { return c.SupportsAttachDetach })
	return err == nil && !attaches
}

func attached(a *api.VolumeAttachment) *Attached {
	return &Attached{PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, Fence: a.Fence}
}

// enter waits until the plugin has room for another call, and the node has none of it in flight or one that hangs.
func (s *Service) enter(ctx context.Context, what string, a *api.VolumeAttachment, width int) (func(), error) {
	node, err := s.gates.turn(ctx, a.PluginID+" on "+a.NodeID, s.limits.SlowAfter)
	if err != nil {
		return nil, err
	}
	leave, err := s.gates.enter(ctx, a.PluginID+" "+what, width)
	if err != nil {
		node()
		return nil, err
	}
	return func() { leave(); node() }, nil
}

// attachFailed writes an error when it is news, and from time to time how long it lasts: a call that
// keeps failing must not fill the log.
func (s *Service) attachFailed(a *api.VolumeAttachment) func(context.Context, error, try) error {
	return func(ctx context.Context, err error, t try) error {
		now := s.state.Read().Attachment(a.PluginID, a.ExternalID, a.NodeID)
		if now != nil && now.LastError == err.Error() && t.failed&(t.failed-1) != 0 {
			return nil
		}
		result := s.failure(a, err, t)
		result.NextRetry = t.due.UnixNano()
		return s.record(ctx, result)
	}
}

func (s *Service) failure(a *api.VolumeAttachment, err error, t try) *Attached {
	result := attached(a)
	result.Reason, result.Attempts = err.Error(), t.failed
	if errors.Is(err, fault.Exhausted) {
		result.NoRoom = s.until()
	}
	return result
}

// few is how often a publish is tried that may yet succeed, but has no reason to.
const few = 3

// refused reports that a driver will not attach. Conflicts pass: the volume may still be attached
// elsewhere, or the call be that of a deposed leader.
func refused(err error, t try) bool {
	switch fault.Of(err) {
	case fault.Invalid, fault.Denied, fault.Unimplemented:
		return true
	case fault.NotFound, fault.Exhausted:
		return t.failed >= few
	}
	return false
}

// publishFailed ends a publish that is refused: the claims that wait for it are answered so.
func (s *Service) publishFailed(a *api.VolumeAttachment) func(context.Context, error, try) error {
	again := s.attachFailed(a)
	return func(ctx context.Context, err error, t try) error {
		if !refused(err, t) {
			return again(ctx, err, t)
		}
		result := s.failure(a, err, t)
		result.Refused = uint8(fault.Of(err))
		return s.record(ctx, result)
	}
}
