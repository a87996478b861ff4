package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
)

// stopGrace is how long calls in flight may take when a plugin ends.
const stopGrace = 5 * time.Second

// SocketOf returns the path of an endpoint such as unix:///csi/csi.sock; a bare path is one too.
func SocketOf(endpoint string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:")
	if path == "" || strings.Contains(path, "://") {
		return "", fault.New(fault.Invalid, "endpoint %q is not a unix socket: write unix:///path/csi.sock", endpoint)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fault.New(fault.Invalid, "endpoint %q: %w", endpoint, err)
	}
	return abs, CheckSocketPath(abs)
}

// Listen makes the socket of a plugin, in the place of one that a dead plugin left.
func Listen(socket string) (net.Listener, error) {
	if i, err := os.Lstat(socket); err == nil && i.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("remove old socket: %w", err)
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on plugin socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect plugin socket: %w", err), l.Close())
	}
	return l, nil
}

// Serve serves calls until ctx ends, and waits for those in flight.
func Serve(ctx context.Context, l net.Listener, s *grpc.Server) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		hard := time.AfterFunc(stopGrace, s.Stop)
		defer hard.Stop()
		s.GracefulStop()
	}()
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve plugin: %w", err)
	}
	return nil
}
