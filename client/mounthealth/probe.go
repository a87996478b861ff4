package mounthealth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	// answerWait is the time within which a mount has to respond; a slower mount is unresponsive.
	answerWait = 3 * time.Second
	// openMax bounds the questions of sweeps that may still be answered in time. Those to unresponsive mounts,
	// which never return, are not counted: there is one per mount.
	openMax = 32
	// unresponsiveMax bounds the questions to unresponsive mounts, each of which keeps a thread.
	unresponsiveMax = 1000
	// checks is how many mounts are asked at once for those who must know.
	checks = 16
)

// Health is what is known of a mount.
type Health int

const (
	// Unknown means no result: too many probes are pending, or the context ended.
	Unknown Health = iota
	// Healthy means that the mount responds.
	Healthy
	// Unresponsive means that the mount does not respond, which may be temporary.
	Unresponsive
	// Failed means that the mount returns an error that only a new mount ends.
	Failed
)

// Prober asks file systems for a sign of life, with at most one open question per mount.
type Prober struct {
	host   mounts.Host
	checks chan struct{}
	mu     sync.Mutex
	open   map[string]*question
}

type question struct {
	asked  time.Time
	answer chan error
}

// NewProber returns a prober of the host's mounts.
func NewProber(host mounts.Host) *Prober {
	return &Prober{host: host, checks: make(chan struct{}, checks), open: map[string]*question{}}
}

// Look probes one mount and returns why it is not healthy. It waits for at most 3 s, and not at all for a mount whose
// probe has been pending longer than that. It returns Unknown when too many probes are pending.
func (l *Prober) Look(ctx context.Context, at *mounts.Entry) (Health, string) {
	q := l.statfs(at, true)
	if q == nil {
		return Unknown, ""
	}
	return q.health(ctx)
}

// Check probes one mount for a caller that needs a result: it returns Unknown only when ctx ends. It uses slots of its
// own, and a probe that gets no response in time releases its slot.
func (l *Prober) Check(ctx context.Context, at *mounts.Entry) (Health, string) {
	select {
	case l.checks <- struct{}{}:
		defer func() { <-l.checks }()
	case <-ctx.Done():
		return Unknown, "other mounts are asked first"
	}
	return l.statfs(at, false).health(ctx)
}

// Usable is Check for a mount that is about to be used. It also opens the root. A file system that was shut down, as
// at the end of a lease, stays shut down at new mounts while a process holds its files open, and statfs does not show
// that.
func (l *Prober) Usable(ctx context.Context, at *mounts.Entry) (Health, string) {
	if h, why := l.Check(ctx, at); h != Healthy {
		return h, why
	}
	h, why := l.ask("root", at, false, func() error { return l.host.Root(at) }).health(ctx)
	if h == Failed {
		why += ": it was shut down, and is there as long as anything has it mounted or its files open"
	}
	return h, why
}

func (l *Prober) statfs(at *mounts.Entry, bounded bool) *question {
	return l.ask("statfs", at, bounded, func() error { return l.host.Statfs(at.Point) })
}

// health waits for the result.
func (q *question) health(ctx context.Context) (Health, string) {
	timer := time.NewTimer(answerWait - time.Since(q.asked))
	defer timer.Stop()
	select {
	case err := <-q.answer:
		q.answer <- err // for others who wait for the same result
		if broken(err) {
			return Failed, fmt.Sprintf("it answers %q", err)
		}
		return Healthy, ""
	case <-timer.C:
		return Unresponsive, fmt.Sprintf("it does not answer for %s", time.Since(q.asked).Round(time.Second))
	case <-ctx.Done():
		return Unknown, ""
	}
}

// Abort makes all calls that wait for an unresponsive mount fail, including pending probes, because it cannot be
// unmounted before. File systems that do not support that are unmounted if they are not in use.
func (l *Prober) Abort(ctx context.Context, at *mounts.Entry) {
	q := l.ask("abort", at, false, func() error { return l.host.Abort(at) })
	timer := time.NewTimer(answerWait - time.Since(q.asked))
	defer timer.Stop()
	select {
	case err := <-q.answer:
		q.answer <- err
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask returns the open question of a kind to the mount. A bounded one is nil when too many are open. A later mount
// at the same path is another one.
func (l *Prober) ask(kind string, at *mounts.Entry, bounded bool, do func() error) *question {
	key := kind + " " + strconv.Itoa(at.ID) + " " + at.Point
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.open[key]; q != nil {
		return q
	}
	if bounded && l.fullLocked() {
		return nil
	}
	q := &question{asked: time.Now(), answer: make(chan error, 1)}
	l.open[key] = q
	// The goroutine may outlive its caller: no system call on a hung mount can be interrupted.
	go func() {
		err := do()
		l.mu.Lock()
		delete(l.open, key)
		l.mu.Unlock()
		q.answer <- err
	}()
	return q
}

// fullLocked reports whether no more mounts may be asked now. The caller holds mu.
func (l *Prober) fullLocked() bool {
	fresh := 0
	for _, q := range l.open {
		if time.Since(q.asked) < answerWait {
			fresh++
		}
	}
	return fresh >= openMax || len(l.open)-fresh >= unresponsiveMax
}

// broken reports whether statfs failed in a way that only a new mount ends. EACCES is none: a FUSE file system
// may keep all but its user out.
func broken(err error) bool {
	for _, e := range []error{unix.ENOTCONN, unix.ESTALE, unix.EIO, unix.EHOSTDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
