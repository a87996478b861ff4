package volumes

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

// Limits of asking mounts whether they live: a question to a hung one never returns.
const (
	aliveWait = 3 * time.Second
	hungMax   = 32
)

// verdict is what is known of a mount.
type verdict int

const (
	// unsure says nothing: too many questions are open already, or the time was over.
	unsure verdict = iota
	living
	// silent gives no answer, which may pass.
	silent
	// broken answers with an error that only a new mount ends.
	broken
)

// liveness asks file systems for a sign of life, with at most one open question per mount.
type liveness struct {
	mu   sync.Mutex
	open map[string]*question
}

type question struct {
	asked  time.Time
	answer chan error
}

// alive reports whether the mount at path answers in time.
func (l *liveness) alive(ctx context.Context, path string) bool {
	at, err := mounts.At(path)
	if err != nil || at == nil {
		return false
	}
	v, _ := l.look(ctx, at)
	return v == living
}

// look asks one mount and says why it does not live. It waits no longer than aliveWait, and not at all for a
// mount whose question is open longer than that.
func (l *liveness) look(ctx context.Context, at *mounts.Entry) (verdict, string) {
	q := l.ask("statfs", at, func() error {
		var s unix.Statfs_t
		return unix.Statfs(at.Point, &s)
	})
	if q == nil {
		return unsure, ""
	}
	timer := time.NewTimer(aliveWait - time.Since(q.asked))
	defer timer.Stop()
	select {
	case err := <-q.answer:
		q.answer <- err // for others who wait for the same answer
		if corrupted(err) {
			return broken, fmt.Sprintf("it answers %q", err)
		}
		return living, ""
	case <-timer.C:
		return silent, fmt.Sprintf("it does not answer for %s", time.Since(q.asked).Round(time.Second))
	case <-ctx.Done():
		return unsure, ""
	}
}

// abort lets all that waits for a silent mount fail, our own question too: nothing can unmount it before. File
// systems that cannot be told so are unmounted if nobody uses them.
func (l *liveness) abort(ctx context.Context, at *mounts.Entry) {
	q := l.ask("abort", at, func() error { return unix.Unmount(at.Point, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW) })
	if q == nil {
		return
	}
	timer := time.NewTimer(aliveWait - time.Since(q.asked))
	defer timer.Stop()
	select {
	case err := <-q.answer:
		q.answer <- err
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask returns the open question of a kind to the mount, nil when there are too many. A later mount at the same
// path is another one.
func (l *liveness) ask(kind string, at *mounts.Entry, do func() error) *question {
	key := kind + " " + strconv.Itoa(at.ID) + " " + at.Point
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.open[key]; q != nil {
		return q
	}
	if len(l.open) >= hungMax {
		return nil
	}
	if l.open == nil {
		l.open = map[string]*question{}
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

func corrupted(err error) bool {
	for _, e := range []error{unix.ENOTCONN, unix.ESTALE, unix.EIO, unix.EACCES, unix.EHOSTDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
