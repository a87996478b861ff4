package client_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
)

// logged is a log that is looked at while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

// Who starts an agent on a disk that hangs sees for what it waits.
func TestStartThatHangsSaysWhereItWaits(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.stop()
	out := &logged{}
	b.conf.Log = hclog.New(&hclog.LoggerOptions{Output: out})
	hung := filepath.Join(b.conf.StateDir, "lease")
	if err := unix.Mkfifo(hung, 0o600); err != nil {
		t.Fatal(err)
	}
	made := make(chan error)
	var node *client.Client
	go func() {
		var err error
		node, err = client.New(b.conf)
		made <- err
	}()
	eventually(t, "the wait is told", func() bool {
		return out.has("starting the agent takes long") && out.has("path="+b.conf.StateDir)
	})
	if err := os.WriteFile(hung, nil, 0o600); err != nil { // the disk answers
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := node.Run(ctx); err != nil {
		t.Error(err)
	}
	if !out.has("starting the agent continues") {
		t.Error("it is not told that the start goes on")
	}
}
