package agent

import (
	"bufio"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// full is a listener whose first Accept fails because the process has too many open files.
type full struct {
	net.Listener
	conns chan net.Conn
	err   error
}

func (f *full) Accept() (net.Conn, error) {
	if err := f.err; err != nil {
		f.err = nil
		return nil, err
	}
	if conn, ok := <-f.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (f *full) Close() error { return nil }

// The connections that wait in the socket would never be answered.
func TestSocketsOfTasksOutlastALackOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default()
		a := &agent{log: hclog.NewNullLogger(), cfg: cfg, tasks: http.NotFoundHandler()}
		here, there := net.Pipe()
		f := &full{conns: make(chan net.Conn, 1), err: &net.OpError{Op: "accept", Err: syscall.EMFILE}}
		f.conns <- there
		a.serveTask(f, "alloc", "task")
		_ = here.SetDeadline(time.Now().Add(time.Minute))
		if _, err := here.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil || r.StatusCode != http.StatusNotFound {
			t.Error(r, err)
		} else {
			_ = r.Body.Close()
		}
		_ = here.Close()
		close(f.conns)
	})
}
