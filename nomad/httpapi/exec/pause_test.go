package exec_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/sessions"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad/httpapi/exec"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// buffered is more than what agents and the kernel keep for a client that reads nothing.
const buffered = 64 << 20

// TestAClientThatStopsReadingLosesItsCommand: a command that prints without end waits for its client, in bounded memory, and is
// killed when the client has read nothing for the permitted pause. Another client works meanwhile.
func TestAClientThatStopsReadingLosesItsCommand(t *testing.T) {
	t.Parallel()
	var printed atomic.Int64
	killed := make(chan struct{})
	b := bedWith(t, exec.RoutesWithin(3*time.Second), func(ctx context.Context, c *driver.Command) (int, error) {
		if c.Args[0] == "cat" {
			return cat(ctx, c)
		}
		defer close(killed)
		for line := make([]byte, 64<<10); ; {
			n, err := c.Stdout.Write(line)
			if printed.Add(int64(n)); err != nil || printed.Load() > buffered {
				return 1, err
			}
		}
	})
	b.exec(t, "yes")
	conn := b.exec(t, "cat")
	tell(t, conn, api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Data: []byte("hello")}})
	if _, body, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(body), "aGVsbG8=") {
		t.Errorf("another client reads %q, %v", body, err)
	}
	select {
	case <-killed:
	case <-time.After(time.Minute):
		t.Error("the command still runs")
	}
	if n := printed.Load(); n > buffered {
		t.Errorf("%d bytes were read for a client that reads nothing", n)
	}
}

// TestAPausedClientReadsOn: a client that pages the output pauses for longer than the node keeps a session without calls.
func TestAPausedClientReadsOn(t *testing.T) {
	soaktest.Only(t)
	t.Parallel()
	b := newBed(t, func(_ context.Context, c *driver.Command) (int, error) {
		_, err := io.CopyN(c.Stdout, zeros{}, buffered)
		return 0, err
	})
	conn := b.exec(t, "less")
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(sessions.IdleMax + 15*time.Second)
	if out, _, last, closed := hear(t, conn); websocket.CloseStatus(closed) != websocket.StatusNormalClosure || !last.Exited || len(out) < buffered/2 {
		t.Errorf("%d bytes, last frame %+v, %v", len(out), last, closed)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
