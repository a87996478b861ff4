package volumes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/workqueue"
)

// Events of tasks whose volumes are not mounted yet.
const (
	EventWaiting = csiplugins.EventWaiting
	EventWaited  = "Waiting Ended"
)

// slowAfter is how long an operation may take before it is reported as a wait.
const slowAfter = time.Second

// wait is one allocation's wait for one volume. It reports each new reason, and its end, to the tasks once, and to the
// servers what only the node knows. A nil wait reports nothing.
type wait struct {
	s     *Service
	req   *request
	begun time.Time
	mu    sync.Mutex
	// reason is the reason that was last reported to the tasks.
	reason string
	// shown is set when the servers may show a reason.
	shown bool
}

// because reports the reason of the wait; next is when it may end, zero when that is unknown. With show it also
// reports to the servers.
func (t *wait) because(reason string, next time.Time, show bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if show {
		t.shown = true
		t.s.notes.set(t.key(), note{reason: reason, next: next})
	}
	if t.reason == reason {
		return
	}
	t.reason = reason
	text := fmt.Sprintf("Volume %q: %s; since %s", t.req.name(), reason, t.begun.UTC().Format(time.RFC3339))
	if !next.IsZero() {
		text += ", next try at " + next.UTC().Format(time.RFC3339)
	}
	t.s.conf.Tasks.Tell(t.req.alloc.ID, t.req.volumeID(), EventWaiting, text)
}

// progress reports the progress of a long operation to the servers, and the first time to the tasks.
func (t *wait) progress(reason string) {
	if t == nil {
		return
	}
	if !t.told() {
		t.because(reason, time.Time{}, true)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown = true
	t.s.notes.set(t.key(), note{reason: reason})
}

// since reports the reason of a wait that has lasted for [slowAfter] already.
func (t *wait) since(reason string) {
	if t != nil && time.Since(t.begun) >= slowAfter {
		t.because(reason, time.Time{}, false)
	}
}

// during reports the reason when stop is not called within [slowAfter] and nothing was reported yet: a failure
// explains more than a silence.
func (t *wait) during(show bool, reason func() string) (stop func()) {
	if t == nil {
		return func() {}
	}
	var mu sync.Mutex
	ended := false
	timer := time.AfterFunc(slowAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended && !t.told() {
			t.because(reason(), time.Time{}, show)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}
}

// over reports that the volume is mounted, if a reason was reported before.
func (t *wait) over() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown {
		t.s.notes.set(t.key(), note{})
	}
	if t.reason != "" {
		t.s.conf.Tasks.Tell(t.req.alloc.ID, t.req.volumeID(), EventWaited,
			fmt.Sprintf("Volume %q is mounted after %s", t.req.name(), time.Since(t.begun).Round(10*time.Millisecond)))
	}
}

func (t *wait) told() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason != ""
}

func (t *wait) key() string {
	return t.req.key()
}

// noteEvery is how often a note is sent to the servers again when only its next attempt has changed.
const noteEvery = 30 * time.Second

// note is what the servers should show of a claim that is not mounted; one without reason takes it back.
type note struct {
	reason string
	next   time.Time
	said   time.Time
}

// notes are the reasons that are, or must be, reported to the servers, by the keys of rows. A crash forgets them: the
// next mount of the row withdraws a note that may be left.
type notes struct {
	mu    sync.Mutex
	byKey map[string]*note
	queue *workqueue.Queue
}

func (n *notes) set(key string, next note) {
	n.mu.Lock()
	old := n.byKey[key]
	if old != nil && old.reason == next.reason && time.Since(old.said) < noteEvery {
		n.mu.Unlock()
		return
	}
	if n.byKey == nil {
		n.byKey = map[string]*note{}
	}
	next.said = time.Now()
	n.byKey[key] = &next
	n.mu.Unlock()
	n.queue.Add(key)
}

func (n *notes) get(key string) *note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byKey[key]
}

// drop forgets a note that is still the present one.
func (n *notes) drop(key string, told *note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byKey[key] == told {
		delete(n.byKey, key)
	}
}

// sendNote sends the current note of a row to the servers.
func (s *Service) sendNote(ctx context.Context, key string) error {
	n, r := s.notes.get(key), s.journal.Row(key)
	if n == nil {
		return nil
	}
	if r == nil || r.State == journal.Leaving || r.State == journal.Released {
		s.notes.drop(key, n)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	req := &api.VolumeUnpublishRequest{VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, Mounting: true, Error: n.reason}
	req.Namespace = r.Namespace
	if !n.next.IsZero() {
		req.NextRetry = n.next.UnixNano()
	}
	if err := s.send(ctx, req); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	if n.reason == "" {
		s.notes.drop(key, n)
	}
	return nil
}

// reportNoRoom reports to the servers that the driver has no capacity for the volume on this node, before the
// allocation fails and is placed again. It is best effort: the next allocation that meets the limit reports it again.
func (s *Service) reportNoRoom(ctx context.Context, w *request, failure error) {
	var said *fault.Call
	if !errors.As(failure, &said) || said.Verdict != fault.VerdictLimit {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	req := &api.VolumeUnpublishRequest{VolumeID: w.volumeID(), AllocID: w.alloc.ID, Use: w.use.Name, Mounting: true, NoRoom: true, Error: failure.Error()}
	req.Namespace = w.alloc.Namespace
	if err := s.send(ctx, req); err != nil {
		s.log.Warn("report that the node has no room", "volume_id", w.volumeID(), "alloc_id", w.alloc.ID, "error", err)
	}
}
