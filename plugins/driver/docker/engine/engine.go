// Package engine connects to a Docker engine, or to one with a compatible API such as Podman, and gives its errors a
// class.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

// Open makes a client of the engine that the plugin block names. It does not connect.
func Open(p *config.Plugin) (*client.Client, error) {
	options := []client.Opt{client.FromEnv}
	if p.TLS.CA != "" || p.TLS.Cert != "" {
		options = append(options, client.WithTLSClientConfig(p.TLS.CA, p.TLS.Cert, p.TLS.Key))
	}
	if p.Endpoint != "" {
		options = append(options, client.WithHost(p.Endpoint))
	}
	c, err := client.New(options...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "connect to the docker engine: %w", err)
	}
	return c, nil
}

// SocketMissing reports whether the engine is reached by a socket of this host that does not exist: no engine was started
// there since the host is up.
func SocketMissing(err error) bool {
	return errors.Is(err, syscall.ENOENT)
}

// Error gives an error of the engine its class, and names the call that failed. What may go away is fault.Unavailable.
func Error(what string, err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Errorf("%s: %w", what, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, text)
	case disconnected(err):
		return fault.Wrap(fault.Unavailable, text)
	case errdefs.IsNotFound(err):
		return fault.Wrap(fault.NotFound, text)
	case errdefs.IsConflict(err):
		return fault.Wrap(fault.Conflict, text)
	case temporary(err.Error()):
		return fault.Wrap(fault.Unavailable, text)
	case errdefs.IsInvalidArgument(err), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return fault.Wrap(fault.Invalid, text)
	}
	return text
}

// disconnected reports whether the engine could not be reached, or ended while it worked.
func disconnected(err error) bool {
	var network net.Error
	return client.IsErrConnectionFailed(err) || errdefs.IsUnavailable(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &network)
}

// temporary reports whether the engine's text is about something that others may release. The engine has one status for
// all of this.
func temporary(text string) bool {
	for _, part := range []string{
		"port is already allocated", "address already in use", "no space left on device", "i/o timeout", "TLS handshake timeout", "connection refused",
		"connection reset", "no such host", "toomanyrequests", "context deadline exceeded", "shutting down",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
