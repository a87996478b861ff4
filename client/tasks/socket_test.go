package tasks_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestSocketIsServedWhileTheTaskRuns(t *testing.T) {
	b := setup(t, "service", &api.Task{Name: "t"})
	var mu sync.Mutex
	var served []net.Listener
	open := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(served)
	}
	b.conf.ServeAPI = func(l net.Listener, _ string) {
		mu.Lock()
		defer mu.Unlock()
		served = append(served, l)
		b.conf.Changed()
	}
	b.renew(t)
	path := filepath.Join(b.conf.Dirs.Task("t").Secrets(), "api.sock")
	ctx, cancel := context.WithCancel(t.Context())
	wait := b.run(ctx)
	b.until(t, "running", running("t"))
	if _, err := os.Lstat(path); err != nil || open() != 1 {
		t.Errorf("%d sockets served, %v", open(), err)
	}
	cancel()
	_ = wait()
	b.renew(t)
	wait = b.run(t.Context())
	b.until(t, "socket after the restart of the agent", func(map[string]*api.TaskState) bool { return open() == 2 })
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	b.Stop()
	_ = wait()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	for _, l := range served {
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a socket is still open: %v", err)
		}
	}
}
