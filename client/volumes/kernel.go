package volumes

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	// umountWait bounds the wait for an unmount of our own: a hung file system may hold it up.
	umountWait = 15 * time.Second
	// stackedMax is how many mounts on top of each other are removed.
	stackedMax = 8
	// syncWait bounds the wait for a file system that is written back, syncLook is how often it is asked whether it
	// lives meanwhile.
	syncWait = 10 * time.Minute
	syncLook = 5 * time.Second
)

// pendingCalls are system calls that a file system may block, by key. They cannot be interrupted: each key has at most one,
// which holds a thread until the kernel completes it.
type pendingCalls struct {
	mu   sync.Mutex
	open map[string]*pendingCall
}

type pendingCall struct {
	over chan struct{}
	err  error
}

// begin starts a call unless one of the key is pending.
func (o *pendingCalls) begin(key string, do func() error) *pendingCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.open[key]; e != nil {
		return e
	}
	if o.open == nil {
		o.open = map[string]*pendingCall{}
	}
	e := &pendingCall{over: make(chan struct{})}
	o.open[key] = e
	go func() {
		e.err = do()
		o.mu.Lock()
		delete(o.open, key)
		o.mu.Unlock()
		close(e.over)
	}()
	return e
}

// callKey returns the key of a call about a mount. Another mount at its path has another key.
func callKey(what string, at *mounts.Entry) string {
	return what + " " + at.Point + " " + strconv.Itoa(at.ID) + " " + strconv.FormatUint(at.Unique, 10)
}

// about lists the pending calls of a kind about mounts at the path.
func (o *pendingCalls) about(what, path string) (out []*pendingCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, e := range o.open {
		if strings.HasPrefix(key, what+" "+path+" ") {
			out = append(out, e)
		}
	}
	return out
}

// wait waits for the end, no longer than the limit.
func (e *pendingCall) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-e.over:
		return e.err
	case <-ctx.Done():
		return fault.New(fault.Timeout, "the kernel did not complete it within %s", limit)
	}
}

// unmountOurselves unmounts without the plugin. A mount in use stays, unless it has failed or force is set: then it is
// detached. own are the paths of its volume.
func (s *Service) unmountOurselves(ctx context.Context, path string, own []string, force bool) (how string, err error) {
	at, err := s.host.At(path)
	if err != nil || at == nil {
		return "the node unmounted", err
	}
	h, _ := s.health.Prober().Check(ctx, at)
	if h == mounthealth.Unresponsive {
		s.abort(ctx, at, own)
	}
	take := func(what string, one func(*mounts.Entry) error) error {
		return s.pending.begin(callKey(what, at), func() error { return s.eachFrom(at, one) }).wait(ctx, umountWait)
	}
	if err = take("unmount", s.host.Remove); err == nil {
		return "the node unmounted", nil
	}
	if !force && h != mounthealth.Failed {
		return "", err
	}
	return "the node detached the mount at (lazily: it was in use or did not answer)", take("detach", s.host.Detach)
}

// eachFrom does something that takes a mount away with one that was seen, and with those that it covers. One that comes
// meanwhile stays, and is an error.
func (s *Service) eachFrom(first *mounts.Entry, take func(*mounts.Entry) error) error {
	seen, err := s.host.Table()
	if err != nil {
		return err
	}
	return s.eachSince(seen, first, take)
}

// eachSince is eachFrom for a mount that was seen with the rest of the table.
func (s *Service) eachSince(seen mounts.List, first *mounts.Entry, take func(*mounts.Entry) error) (err error) {
	at := first
	for range stackedMax {
		if err := take(at); err != nil {
			return err
		}
		if at, err = s.mountedAt(first.Point, false); err != nil || at == nil {
			return err
		}
		if !at.Before(first, seen) {
			return fault.New(fault.Unavailable, "another mount appeared at %s", first.Point)
		}
	}
	return fault.New(fault.Unavailable, "more than %d mounts are on top of each other at %s", stackedMax, first.Point)
}

// unmounting returns an error while an unmount by this agent is pending: the mount may be written back although the mount
// table no longer shows it.
func (s *Service) unmounting(ctx context.Context, path string) error {
	for _, e := range append(s.pending.about("unmount", path), s.pending.about("detach", path)...) {
		if e.wait(ctx, umountWait) == nil || !isOpen(e) { // one that has failed is there still
			continue
		}
		return fault.New(fault.Unavailable, "the kernel has not completed the unmount of %s: it may be writing back", path)
	}
	return nil
}

// abort lets all that waits for an unresponsive mount fail, unless others have its file system too.
func (s *Service) abort(ctx context.Context, at *mounts.Entry, own []string) {
	table, err := s.host.Table()
	if err != nil || !ownsAll(table, at, own) {
		s.log.Warn("a mount that does not answer is not aborted: others have its file system too", "path", at.Point, "error", err)
		return
	}
	s.health.Prober().Abort(ctx, at)
}

// writeBack writes the last user's file system back before anything is unmounted. Until that has ended the mount stays
// in the table, where the end of a lease finds it: an unmount that writes back is not visible anywhere. It does not
// wait for a file system that hangs.
func (s *Service) writeBack(ctx context.Context, r *journal.Row) {
	if r.Seen == nil || r.Device() || r.ReadOnly || r.Seen.Root != "/" || r.BootID != s.bootID || len(s.journal.Users(r)) > 0 {
		return
	}
	table, err := s.host.Table()
	if err != nil {
		return
	}
	at := table.AtExactly(r.Target.Host)
	if at == nil || !at.Same(r.Seen) || !ownsAll(table, at, s.ownPaths(r)) {
		return
	}
	if h, _ := s.health.Prober().Check(ctx, at); h != mounthealth.Healthy {
		return
	}
	e := s.pending.begin("sync "+at.Dev, func() error { return s.host.Sync(at) })
	for begun := time.Now(); time.Since(begun) < syncWait; {
		if err = e.wait(ctx, syncLook); err == nil || !isOpen(e) || ctx.Err() != nil {
			break
		}
		if h, why := s.health.Prober().Check(ctx, at); h != mounthealth.Healthy {
			err = fmt.Errorf("it does not respond: %s", why)
			break
		}
	}
	if err != nil {
		s.log.Warn("write a volume back before it is unmounted", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
	}
}

func isOpen(e *pendingCall) bool {
	select {
	case <-e.over:
		return false
	default:
		return true
	}
}

// lookPause is the minimum time between two reads of the mount table that follow changes of it.
const lookPause = time.Second

// watchMounts looks for unrecorded mounts after each change of the mount table, at most once per [lookPause].
func (s *Service) watchMounts(ctx context.Context) {
	err := s.host.Watch(ctx, func() { // what changes during the pause is reported after it, at once
		s.planUnmounts()
		retry.Sleep(ctx, lookPause)
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("watch the mount table: mounts without a record are found at the next start of the agent", "error", err)
	}
}
