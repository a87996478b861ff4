package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of what is remembered of refused peers.
const (
	recentMax   = 256
	recentPause = time.Minute
)

// recent remembers what was said lately, so that a peer that keeps trying does not fill the log.
type recent struct {
	mu sync.Mutex
	at map[string]time.Time
}

// first reports whether the text was not said within the last minute.
func (r *recent) first(text string, now time.Time) bool {
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

// aboutCertificates reports whether a handshake failed because one end did not believe the other.
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

// blamed names the certificate that was not believed.
func blamed(err error) error {
	var unverified *tls.CertificateVerificationError
	if !errors.As(err, &unverified) || len(unverified.UnverifiedCertificates) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", describe(unverified.UnverifiedCertificates[0]), unverified.Err)
}
