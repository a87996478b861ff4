package rest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
)

// TLS configures the trusted authorities and our certificate.
type TLS struct {
	// CACert is a file and CAPath a folder with authorities; CACert wins, and without both the
	// system's are trusted.
	CACert     string
	CAPath     string
	ClientCert string
	ClientKey  string
	// ServerName is expected in the agent's certificate instead of the host of the address.
	ServerName string
	SkipVerify bool
}

func (t TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify} //nolint:gosec // asked for
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return nil, fault.New(fault.Invalid, "client certificate and client key are needed both: -client-cert %q, -client-key %q", t.ClientCert, t.ClientKey)
	}
	if t.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, fault.New(fault.Invalid, "load client certificate %s with key %s: %w", t.ClientCert, t.ClientKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	files, err := t.authorities()
	if err != nil || len(files) == 0 {
		return config, err
	}
	config.RootCAs = x509.NewCertPool()
	for _, f := range files {
		pem, err := os.ReadFile(f)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read certificate authority: %w", err)
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "no certificate in %s", f)
		}
	}
	return config, nil
}

func (t TLS) authorities() ([]string, error) {
	if t.CACert != "" {
		return []string{t.CACert}, nil
	}
	if t.CAPath == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(t.CAPath)
	if err != nil {
		return nil, fault.New(fault.Invalid, "list certificate authorities: %w", err)
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(t.CAPath, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fault.New(fault.Invalid, "no certificate authority in folder %s", t.CAPath)
	}
	return files, nil
}

// explain adds the next step to a certificate error.
func (c *Client) explain(err error) error {
	if c.base.Scheme != "https" {
		return err
	}
	t := c.config.TLS
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var remote *net.OpError
	const set = "set -client-cert and -client-key, or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY"
	switch {
	case errors.As(err, &unknown) && t.CACert == "" && t.CAPath == "":
		return fmt.Errorf("%w (name the authority with -ca-cert or NOMAD_CACERT)", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w (set the expected name with -tls-server-name or NOMAD_TLS_SERVER_NAME)", err)
	case t.ClientCert == "" && closed(err):
		// The agent closed while we were writing, and its reason was lost.
		return fmt.Errorf("%w (the agent may demand a client certificate: %s)", err, set)
	case !errors.As(err, &remote) || remote.Op != "remote error":
		return err
	case t.ClientCert == "" && strings.Contains(err.Error(), "certificate"):
		return fmt.Errorf("the agent demands a client certificate: %s (%w)", set, err)
	case t.ClientCert != "":
		return fmt.Errorf("the agent refuses client certificate %s: %w", t.ClientCert, err)
	}
	return err
}

// closed tells of a connection that the other end closed before the first answer. HTTP/2 has no error
// value for that, only a text.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "client conn could not be established")
}
