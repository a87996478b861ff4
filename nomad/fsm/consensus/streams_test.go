package consensus

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A port that is closed before the transport is no trouble.
func TestTransportEndsWithoutComplaint(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	accepted := make(chan error, 1)
	s := &streams{Listener: l, ended: make(chan struct{})}
	n := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s, Logger: hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug}),
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _, err := s.Accept(); accepted <- err }()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err == nil {
		t.Error("a closed port accepts")
	}
	if strings.Contains(out.String(), "failed to accept") {
		t.Errorf("complained: %s", out.String())
	}
}
