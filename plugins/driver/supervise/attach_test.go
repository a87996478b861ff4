package supervise_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

func TestSupervisingProcessThatDoesNotAnswerIsNotNone(t *testing.T) {
	state := filepath.Join(t.TempDir(), "s")
	if _, err := supervise.Find(t.Context(), state); !errors.Is(err, fault.NotFound) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", state+".sock")
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = supervise.Find(ctx, state); !errors.Is(err, fault.Unavailable) {
		t.Errorf("busy: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = supervise.Find(t.Context(), state); !errors.Is(err, fault.NotFound) {
		t.Errorf("after its end: %v", err)
	}
}
