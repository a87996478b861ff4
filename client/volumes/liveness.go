package volumes

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of asking mounts whether they live: a question to a hung one never returns.
const (
	aliveWait = 3 * time.Second
	hungMax   = 32
)

// liveness asks file systems for a sign of life, with at most one open question per mount.
type liveness struct {
	mu   sync.Mutex
	open map[string]chan error
}

// alive reports whether the mount answers in time.
func (l *liveness) alive(ctx context.Context, path string) bool {
	answer, ok := l.ask(path)
	if !ok {
		return false
	}
	timer := time.NewTimer(aliveWait)
	defer timer.Stop()
	select {
	case err := <-answer:
		answer <- err // for others who wait for the same answer
		return !corrupted(err)
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (l *liveness) ask(path string) (chan error, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.open[path]; ok {
		return c, true
	}
	if len(l.open) >= hungMax {
		return nil, false
	}
	if l.open == nil {
		l.open = map[string]chan error{}
	}
	c := make(chan error, 1)
	l.open[path] = c
	// The goroutine may outlive its caller: no system call on a hung mount can be interrupted.
	go func() {
		var s unix.Statfs_t
		err := unix.Statfs(path, &s)
		l.mu.Lock()
		delete(l.open, path)
		l.mu.Unlock()
		c <- err
	}()
	return c, true
}

func corrupted(err error) bool {
	for _, e := range []error{unix.ENOTCONN, unix.ESTALE, unix.EIO, unix.EACCES, unix.EHOSTDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
