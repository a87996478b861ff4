package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/certs"
)

// Bounds of what is remembered of refused peers.
const (
	recentMax   = 256
	recentPause = time.Minute
)

// recent remembers logged errors, so that a peer that keeps retrying does not fill the log.
type recent struct {
	mu sync.Mutex
	at map[string]time.Time
}

// first reports whether the error of a peer was not logged within the last minute.
func (r *recent) first(peer string, err error, now time.Time) bool {
	reason, _, _ := strings.Cut(err.Error(), "current time")
	text := peer + " " + reason
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[text]; ok && now.Sub(last) < recentPause {
		return false
	}
	for old, at := range r.at {
		if now.Sub(at) >= recentPause {
			delete(r.at, old)
		}
	}
	if len(r.at) >= recentMax {
		return false
	}
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[text] = now
	return true
}

// aboutCertificates reports whether a handshake failed because one end rejected the other's certificate.
func aboutCertificates(err error) bool {
	var unverified *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &unverified) || errors.Is(err, fault.Denied):
		return true
	case errors.As(err, &record) || errors.Is(err, io.EOF):
		return false
	case errors.As(err, &network) && network.Timeout():
		return false
	}
	return strings.Contains(err.Error(), "certificate")
}

// blamed wraps the error with the side whose certificate was rejected.
func blamed(err error) error {
	var unverified *tls.CertificateVerificationError
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Errorf("it refuses our certificate: %w", err)
	}
	if !errors.As(err, &unverified) || len(unverified.UnverifiedCertificates) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", certs.Describe(unverified.UnverifiedCertificates[0]), unverified.Err)
}

// Refusals logs, once in a while per server and reason, why servers are not reached for their
// certificates or ours: connections are retried indefinitely, and nothing else logs it.
type Refusals struct {
	log  hclog.Logger
	said recent
}

// LogRefusals makes the log of a [Dialer].
func LogRefusals(log hclog.Logger) *Refusals { return &Refusals{log: log} }

func (r *Refusals) tell(address string, err error) {
	if r != nil && aboutCertificates(err) && r.said.first(address, err, time.Now()) {
		r.log.Warn("a server is not reached", "server", address, "error", err)
	}
}
