package volumes

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Records may be lost, as with the file of the journal. A mount at a target that no row explains when the agent starts is
// then taken for one whose record cannot be read, as soon as an allocation is known that may have it.

// strays are the names of such targets.
type strays struct {
	mu    sync.Mutex
	names map[string]bool
	// listed are the names of the targets of allocations that the servers have on this node, whether it has taken them up
	// or not; nil before they have said so.
	listed map[string]bool
	// going are the paths of mounts that are being taken away, of which nobody is known to have them.
	going map[string]bool
	// settled is set when no task runs that nobody knows, shown has what was told of a path last.
	settled bool
	shown   map[string]string
}

// findStrays looks for mounts that the journal does not explain.
func (s *Service) findStrays() error {
	orphans, err := s.orphans()
	if err != nil {
		return fmt.Errorf("compare the volume journal with the mounts: %w", err)
	}
	s.strays.names, s.strays.going, s.strays.shown = map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, e := range orphans {
		if isTarget(e) {
			s.strays.names[filepath.Base(e.Point)] = true
		}
	}
	return nil
}

func isTarget(e *mounts.Entry) bool {
	return filepath.Base(filepath.Dir(e.Point)) == csiplugins.TargetDir
}

func isStaging(e *mounts.Entry) bool {
	return filepath.Base(filepath.Dir(e.Point)) == csiplugins.StagingDir
}

// claimStrays takes the mounts that an allocation may have, and that no record explains, for its own.
func (s *Service) claimStrays(a *api.Allocation) {
	s.strays.mu.Lock()
	defer s.strays.mu.Unlock()
	if a == nil || len(s.strays.names) == 0 {
		return
	}
	for name, key := range targetsOf(a) {
		if s.strays.names[name] {
			delete(s.strays.names, name)
			s.journal.lose(key)
			s.log.Error("the volume journal has lost a record: its mount is taken up", "alloc_id", a.ID, "target", name)
		}
	}
}

// targetsOf lists the names of the targets that an allocation may have, with the keys of their rows.
func targetsOf(a *api.Allocation) map[string]string {
	out := map[string]string{}
	for _, u := range a.VolumeUses() {
		for _, use := range []string{u.Name, ""} {
			out[targetName(a.Namespace, u.VolumeID, a.ID, use)] = rowKey(a.ID, a.Namespace, u.VolumeID, use)
		}
	}
	return out
}

// Listed says which allocations the servers have on this node, for the first time since the agent began: until they are
// taken up, their mounts are nobody else's.
func (s *Service) Listed(all []*api.Allocation) {
	names := map[string]bool{}
	for _, a := range all {
		if a == nil || a.Group() == nil || a.ClientTerminal() {
			continue
		}
		for name := range targetsOf(a) {
			names[name] = true
		}
	}
	s.strays.mu.Lock()
	s.strays.listed = names
	s.strays.mu.Unlock()
	s.planStrays()
}

// left reports whether there are mounts that no record and no allocation explains; there are those that were found.
func (t *strays) left(found []*mounts.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[string]bool{}
	for _, e := range found {
		there[filepath.Base(e.Point)] = true
	}
	for name := range t.names {
		if !there[name] {
			delete(t.names, name)
		}
	}
	return len(t.names) > 0
}

func (t *strays) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.names) > 0
}

// told reports whether the servers have said which allocations there are.
func (t *strays) told() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listed != nil
}

// ready reports whether what no allocation explains is nobody's: the servers have said which allocations there are, and no
// task runs that nobody knows.
func (t *strays) ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled && t.listed != nil
}

func (t *strays) isListed(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listed[name]
}

// isGoing returns an error while what is mounted at a path is being taken away.
func (t *strays) isGoing(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.going[path] {
		return nil
	}
	return fault.New(fault.Unavailable, "what is mounted at %s, of which there is no record, is being taken away", path)
}

// goes begins, or ends, to take away what is mounted at a path; it reports false when somebody else does that already.
func (t *strays) goes(path string, yes bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.going[path] == yes {
		return false
	}
	t.going[path] = yes
	return true
}

// detachStray takes a mount away of which nobody is known to have it: those that list returns. Who is taken up meanwhile
// either is seen here, or waits.
func (s *Service) detachStray(ctx context.Context, e *mounts.Entry, list func() ([]*mounts.Entry, error), force bool) error {
	if !s.strays.goes(e.Point, true) {
		return s.strays.isGoing(e.Point)
	}
	defer s.strays.goes(e.Point, false)
	now, err := list()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(now, func(o *mounts.Entry) bool { return o.Point == e.Point && o.ID == e.ID }) {
		return nil
	}
	how, err := s.unmountOurselves(ctx, e.Point, []string{e.Point}, force)
	if err != nil {
		return err
	}
	s.log.Warn("a mount whose record cannot be read is gone", "what", how, "path", e.Point)
	s.clean(e.Point)
	return nil
}
