package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes/decide"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	// undoTries and undoPatience are how often, and for how long, a plugin must have failed to take a volume
	// down before the node unmounts it itself.
	undoTries    = 5
	undoPatience = time.Minute
	// unstageTries is how often a plugin must have failed to unstage what is no longer mounted before it counts as
	// unstaged.
	unstageTries = 3
)

// undoRun is one try to take a row down.
type undoRun struct {
	// p is nil when the node must do without the plugin: no instance is there, or another reason.
	p       *csiplugins.Plugin
	without string
	// own is set when the node may unmount by itself, force when an operator asked for that.
	own, force bool
	// again is set while the plugin is asked once more to unstage what is not mounted any more, because it failed.
	again bool
	// notes describe what the node did itself.
	notes []string
}

// undo unpublishes, and unstages when the row was the last user. It can be begun again at every point: what is
// over is decided by the mount table, and paths are removed last. The caller holds the volume's turn.
func (s *Service) undo(ctx context.Context, u *undoRun, r *journal.Row) error {
	if err := s.unpublishTarget(ctx, u, r); err != nil {
		return err
	}
	if st := s.stagingOf(r); st != nil {
		used, err := s.used(r, st)
		if err != nil {
			return err
		}
		if !used {
			if err := s.unstagePath(ctx, u, st); err != nil {
				return err
			}
		}
	}
	s.clean(r.Target.Host)
	return nil
}

// unpublishTarget takes a row's volume off its target. The path stays.
func (s *Service) unpublishTarget(ctx context.Context, u *undoRun, r *journal.Row) error {
	if r.Target.Host == "" {
		return nil
	}
	err := s.unmountPath(ctx, u, removal{at: r.Target, own: s.ownPaths(r), device: r.Device(), what: "unpublish"}, func(ctx context.Context) error {
		return s.plugins.Called(u.p, func() error { return u.p.Client().NodeUnpublish(ctx, r.ExternalID, u.p.See(r.Target)) })
	})
	if err != nil {
		return err
	}
	s.endHelpers(r.Helpers)
	return nil
}

// unstagePath takes a volume off its staging path and forgets the staging.
func (s *Service) unstagePath(ctx context.Context, u *undoRun, st *journal.Stage) error {
	session := st.Seen == nil && st.BootID == s.bootID // no session outlives the boot
	if session && st.Done {
		// From here on the driver may have closed the session, which no mount shows. The next user stages again.
		next := *st
		next.Done = false
		st = s.journal.NoteStage(next)
	}
	nobody := &journal.Row{PluginID: st.PluginID, ExternalID: st.ExternalID}
	err := s.unmountPath(ctx, u, removal{
		at: st.Path, own: append(s.ownPaths(nobody), st.Path.Host), what: "unstage", unseen: session, again: u.again && st.BootID == s.bootID,
	}, func(ctx context.Context) error {
		return s.plugins.Called(u.p, func() error { return u.p.Client().NodeUnstage(ctx, st.ExternalID, u.p.See(st.Path)) })
	})
	if err != nil {
		return err
	}
	s.endHelpers(st.Helpers)
	s.journal.Remove(st.Key())
	s.clean(st.Path.Host)
	return nil
}

// removal is what is taken off.
type removal struct {
	at     place
	own    []string // the paths of the volume
	device bool
	what   string
	// unseen is set when it is not known whether the driver mounted something there: unless a mount was seen, the mount
	// table does not show what the driver holds.
	unseen bool
	// again is set when an absent mount is not enough: a driver also has devices and sessions to close.
	again bool
}

// unmountPath lets the plugin remove a volume from a path. It is done in three cases: the plugin succeeded and nothing
// is there; the plugin replied with a failure but nothing is there; or the node has unmounted it itself.
func (s *Service) unmountPath(ctx context.Context, u *undoRun, t removal, call func(context.Context) error) error {
	if err := s.unmounting(ctx, t.at.Host); err != nil && !u.force {
		return fmt.Errorf("%s: %w", t.what, err)
	}
	if t.unseen {
		on, err := s.occupied(t.at.Host, t.device)
		if err != nil {
			return err
		}
		t.unseen = !on
	}
	failure := error(fault.New(fault.Unavailable, "%s", cmp.Or(u.without, "the plugin has no instance on this node")))
	if u.p != nil {
		failure = call(ctx)
	}
	there, err := s.occupied(t.at.Host, t.device)
	if err != nil {
		return err
	}
	absent := errors.Is(failure, fault.NotFound)
	reply := decide.Reply{
		There: there, Succeeded: failure == nil, Absent: absent, Answered: answered(failure), Own: u.own, Unseen: t.unseen, Once: t.again,
	}
	what := reply.Removed()
	if failure == nil && there {
		failure = fault.New(fault.Unavailable, "the plugin reports success, but %s is still mounted", t.at.Host)
	}
	switch what {
	case decide.Removed, decide.Abandoned:
		if failure != nil && u.p != nil && !absent {
			s.log.Warn("the plugin failed at what is over", "what", t.what, "path", t.at.Host, "error", failure)
		}
		if what == decide.Abandoned {
			u.notes = append(u.notes, fmt.Sprintf("what the plugin has for it besides mounts is abandoned: %s: %s", t.what, failure))
		}
		return nil
	case decide.Again:
		return fmt.Errorf("%s: %w", t.what, failure)
	}
	failure = fmt.Errorf("%s: %w", t.what, failure)
	how, err := s.unmountOurselves(ctx, t.at.Host, t.own, u.force)
	if err != nil {
		return fmt.Errorf("%w; the node could not unmount it either: %w", failure, err)
	}
	u.notes = append(u.notes, fmt.Sprintf("%s %s, because the plugin did not: %s", how, t.at.Host, failure))
	if u.p != nil { // so that it forgets what it could not unmount
		if err := call(ctx); err != nil {
			s.log.Warn("the plugin fails although the node has unmounted it", "what", t.what, "path", t.at.Host, "error", err)
		}
	}
	return nil
}

// answered reports whether an error is the plugin's reply, after which none of its work is under way.
func answered(err error) bool {
	return !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Timeout) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// occupied reports whether something of a volume is at the path.
func (s *Service) occupied(path string, device bool) (bool, error) {
	on, err := s.host.IsPoint(path)
	return on || device && s.host.IsDevice(path), err
}

// stagingOf returns the staging that the row uses, or nil. A missing record is replaced by the row and the mount table.
func (s *Service) stagingOf(r *journal.Row) *journal.Stage {
	st := s.journal.StageOf(r.PluginID, r.ExternalID)
	if st != nil || !r.Stages {
		return st
	}
	st = &journal.Stage{PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, BootID: r.BootID}
	if at := s.findMount(csiplugins.StagingDir, r.Volume()); at != nil {
		st.Path, st.Seen = place{Host: at.Point, Plugin: at.Point}, at
	}
	return st
}

// used reports whether another user needs the staging: a row of the journal, or a mount of the same files below the
// plugin's base that the journal does not know.
func (s *Service) used(r *journal.Row, st *journal.Stage) (bool, error) {
	if len(s.journal.Users(r)) > 0 {
		return true, nil
	}
	below, err := s.below()
	if err != nil {
		return false, err
	}
	// The record may be older than what is staged now.
	now := below.AtExactly(st.Path.Host)
	if st.Seen == nil && now == nil && st.BootID != s.bootID { // no session outlives the boot
		return false, nil
	}
	return false, s.unrecordedUser(r, st.Seen, now)
}

// findMount finds what is mounted, or a device node that is, below any plugin's base under the name; dir is that of stagings or targets.
func (s *Service) findMount(dir, name string) *mounts.Entry {
	below, err := s.below()
	if err != nil {
		s.log.Warn("look at mounts", "error", err)
		return nil
	}
	for _, e := range below {
		if hasEnd(e.Point, dir, name) {
			return e
		}
	}
	return nil
}

// clean removes a path that was mounted on.
func (s *Service) clean(path string) {
	if path == "" {
		return
	}
	if err := s.removeLeaf(path); err != nil {
		s.log.Warn("remove the path of a volume", "path", path, "error", err)
	}
}
