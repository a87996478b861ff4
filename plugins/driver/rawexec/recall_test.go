package rawexec_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// Supervising processes that do not answer are waited for together, and not one after the other.
func TestProcessesAreRecalledAtOnce(t *testing.T) {
	t.Parallel()
	const silent = 6
	dir := t.TempDir()
	d := newDriver(t, dir)
	if err := d.Recall(suite.Context(t)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open, most := 0, 0
	for i := range silent {
		shard := filepath.Join(dir, fmt.Sprintf("%x", i%3))
		if err := os.MkdirAll(shard, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(shard, fmt.Sprintf("s%d.sock", i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				mu.Lock()
				open++
				most = max(most, open)
				mu.Unlock()
				go func() {
					_, _ = c.Read(make([]byte, 1)) // until it is hung up
					_ = c.Close()
					mu.Lock()
					open--
					mu.Unlock()
				}()
			}
		}()
	}
	done := make(chan error, 1)
	go func() { done <- d.Recall(suite.Context(t)) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the error does not name those that did not answer")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	mu.Lock()
	defer mu.Unlock()
	if most != silent {
		t.Errorf("%d of %d are asked at once", most, silent)
	}
}
