package volumes

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// A driver may go on with a call that nobody waits for any more, and mount something after the undo, when the volume is
// released: no row has that mount. So what calls without an answer may mount is looked for, for a while.

// lateWatch is for how long after the release a late mount is looked for.
const lateWatch = time.Hour

// latePrefix begins the keys of such looks in the queue.
const latePrefix = "late/"

// late are the rows for which the driver may be at work after their end.
type late struct {
	mu   sync.Mutex
	rows map[string]*lateRow
}

type lateRow struct {
	row      row
	released time.Time
}

// add notes that a call for the row was not answered.
func (l *late) add(r *row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = map[string]*lateRow{}
	}
	l.rows[r.key()] = &lateRow{row: *r}
}

// released begins the watch, if there is a reason for it.
func (l *late) released(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows[key] == nil {
		return false
	}
	l.rows[key].released = time.Now()
	return true
}

// watched returns the row, nil when it is not watched any more.
func (l *late) watched(key string) *row {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.rows[key]
	if w == nil || w.released.IsZero() { // its release begins the watch
		return nil
	}
	if time.Since(w.released) > lateWatch {
		delete(l.rows, key)
		return nil
	}
	return &w.row
}

// keys lists the looks that are planned.
func (l *late) keys() (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.rows {
		keys = append(keys, latePrefix+key)
	}
	return keys
}

// unanswered notes that the driver may be at work on a call for the row, if that is what its failure says.
func (s *Service) unanswered(r *row, failure error) {
	if !answered(failure) {
		s.late.add(r)
	}
}

// lookLate looks in the volume's turn whether something was mounted for a row after its release. Then the row is there
// again, to be undone.
func (s *Service) lookLate(ctx context.Context, key string) error {
	key = strings.TrimPrefix(key, latePrefix)
	r := s.late.watched(key)
	if r == nil {
		return nil
	}
	release, err := s.turn(ctx, "late "+key, r.PluginID, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if s.journal.row(key) != nil {
		return nil
	}
	on, err := s.occupied(r.Target.Host, r.device())
	if err != nil {
		return err
	}
	if !on && r.Stages && s.journal.stageOf(r.PluginID, r.ExternalID) == nil && len(s.journal.users(r)) == 0 {
		if on, err = s.occupied(r.Staging.Host, false); err != nil {
			return err
		}
	}
	if !on {
		return fault.New(fault.Unavailable, "it may come still")
	}
	s.log.Warn("the plugin has mounted a volume after its release", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host)
	again := *r
	again.State, again.failing, again.Told = rowLeaving, failing{}, ""
	s.retries.Add(s.journal.note(again).key())
	return nil
}
