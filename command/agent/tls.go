package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/command/agent/config"
)

// security is the certificates of an agent: what is nil is not configured.
type security struct {
	rpc, http *certs.Reloadable
	// settings are those of HTTPS, as they were read last.
	settings *atomic.Pointer[config.TLS]
}

// secure reads the certificates that the configuration names.
func secure(cfg *config.Config) (security, error) {
	s := security{settings: &atomic.Pointer[config.TLS]{}}
	s.settings.Store(&cfg.TLS)
	var err error
	if cfg.TLS.RPC {
		if s.rpc, err = certs.Load(rpcFiles(cfg)); err != nil {
			return s, err
		}
	}
	if cfg.TLS.HTTP {
		s.http, err = certs.Load(httpFiles(cfg))
	}
	return s, err
}

func rpcFiles(cfg *config.Config) certs.Files {
	f, t := httpFiles(cfg), cfg.TLS
	f.VerifyServerHostname, f.Upgrade, f.Role = t.VerifyServerHostname, t.RPCUpgradeMode, certs.RoleClient
	if cfg.Server.Enabled {
		f.Role = certs.RoleServer
	}
	return f
}

func httpFiles(cfg *config.Config) certs.Files {
	return certs.Files{CA: cfg.TLS.CAFile, Cert: cfg.TLS.CertFile, Key: cfg.TLS.KeyFile, Region: cfg.Region}
}

// doorTLS is HTTPS; each connection takes the certificates and settings that were read last.
func (s security) doorTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			t := s.settings.Load()
			version, err := t.Version()
			if err != nil {
				return nil, err
			}
			suites, err := t.Suites()
			if err != nil {
				return nil, err
			}
			c := &tls.Config{ //nolint:gosec // the version is as configured
				MinVersion: version, CipherSuites: suites, NextProtos: []string{"h2", "http/1.1"},
				Certificates: []tls.Certificate{*s.http.Certificate()},
			}
			if t.VerifyHTTPSClient {
				c.ClientAuth, c.ClientCAs, c.SessionTicketsDisabled = tls.RequireAndVerifyClientCert, s.http.Authorities(), true
			}
			return c, nil
		},
	}
}

// listener puts HTTPS on the port of the server, when it is configured.
func (s security) listener(raw net.Listener) net.Listener {
	if s.http == nil {
		return raw
	}
	return tls.NewListener(raw, s.doorTLS())
}

// way is how a client half without its own server proves itself to servers.
func (s security) way(log hclog.Logger) (transport.Dialer, error) {
	refusals := transport.LogRefusals(log.Named("link"))
	if s.rpc != nil {
		return transport.Dialer{TLS: s.rpc.TLS().Client, Refusals: refusals}, nil
	}
	made, err := certs.SelfMade()
	return transport.Dialer{TLS: made.Client, Refusals: refusals}, err
}

// warn logs what an operator should know about the safety of the transport.
func (s security) warn(cfg *config.Config, log hclog.Logger) {
	t := cfg.TLS
	s.warnEnd(log)
	switch {
	case cfg.Dev:
		return
	case !t.RPC:
		log.Warn("connections between agents are encrypted but not authenticated: set tls { rpc = true } with certificates")
	case t.RPCUpgradeMode:
		log.Warn("tls.rpc_upgrade_mode accepts agents that prove nothing: turn it off when all have certificates")
	case !t.VerifyServerHostname:
		log.Warn("any certificate of the authority passes for a server: set tls { verify_server_hostname = true }")
	}
	if !t.HTTP && !loopback(cfg) {
		log.Warn("the HTTP API is open to others in plain text: set tls { http = true }")
	}
}

// expirySoon is how long before its end a certificate is worth a warning.
const expirySoon = 7 * 24 * time.Hour

func (s security) warnEnd(log hclog.Logger) {
	for _, r := range []*certs.Reloadable{s.rpc, s.http} {
		if r != nil && time.Until(r.Certificate().Leaf.NotAfter) < expirySoon {
			log.Warn("the certificate ends soon: replace it and send SIGHUP", "certificate", s.described())
			return
		}
	}
}

func loopback(cfg *config.Config) bool {
	ip := net.ParseIP(cmp.Or(cfg.Addresses.HTTP, cfg.BindAddr))
	return ip != nil && ip.IsLoopback()
}

// reload takes over the certificates of a configuration that was read again; when one of them is
// refused nothing changes.
func (s security) reload(was, next *config.Config) error {
	if was.TLS.RPC != next.TLS.RPC || was.TLS.HTTP != next.TLS.HTTP {
		return fault.New(fault.Invalid, "tls.http and tls.rpc are switched on and off by a restart only")
	}
	next.Region = was.Region
	if s.rpc != nil {
		if err := s.rpc.Reload(rpcFiles(next)); err != nil {
			return err
		}
	}
	if s.http != nil {
		if err := s.http.Reload(httpFiles(next)); err != nil {
			return err
		}
	}
	s.settings.Store(&next.TLS)
	return nil
}

// reload opens the files of the audit log again, reads the configuration again, and takes over what may change in a running
// agent: the certificates and the log level. The node looks for CNI networks again. After an error the old ones stay.
func (a *agent) reload() error {
	if err := a.audit.reopen(); err != nil {
		return err
	}
	if a.cfg.Again == nil {
		return fault.New(fault.Unimplemented, "this agent has no configuration to read again")
	}
	next, err := a.cfg.Again()
	if err != nil {
		return err
	}
	level := hclog.LevelFromString(next.LogLevel)
	if level == hclog.NoLevel {
		return fault.New(fault.Invalid, "log_level %q is not one of TRACE, DEBUG, INFO, WARN, ERROR", next.LogLevel)
	}
	if err := a.tls.reload(a.cfg, next); err != nil {
		return err
	}
	a.log.SetLevel(level)
	if a.node != nil {
		a.node.Reload(context.Background())
	}
	a.tls.warnEnd(a.log)
	a.log.Info("configuration reloaded", "log_level", level, "certificates", a.tls.described())
	return nil
}

// onHangup reloads at each SIGHUP, those of the start included, until the returned function is called.
func (a *agent) onHangup(ctx context.Context, hangups <-chan os.Signal) (stop func()) {
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for {
			select {
			case <-hangups:
				if err := a.reload(); err != nil {
					a.log.Error("reload refused, the old configuration stays", "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// described names the certificate in use.
func (s security) described() string {
	for _, r := range []*certs.Reloadable{s.rpc, s.http} {
		if r == nil {
			continue
		}
		leaf := r.Certificate().Leaf
		return r.Files().Cert + " (" + strings.Join(leaf.DNSNames, ", ") + "), valid until " + leaf.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
	}
	return "none"
}

// tlsSummary describes for the banner what TLS protects.
func tlsSummary(t config.TLS) string {
	var parts []string
	switch {
	case t.RPC && t.RPCUpgradeMode:
		parts = append(parts, "RPC: certificates accepted, not demanded (upgrade mode)")
	case t.RPC && t.VerifyServerHostname:
		parts = append(parts, "RPC: certificates and roles verified")
	case t.RPC:
		parts = append(parts, "RPC: certificates verified")
	}
	switch {
	case t.HTTP && t.VerifyHTTPSClient:
		parts = append(parts, "HTTPS: client certificates demanded")
	case t.HTTP:
		parts = append(parts, "HTTPS")
	}
	return strings.Join(parts, "; ")
}

// complaints receives the log of net/http: clients that only connect are logged for debugging.
type complaints struct{ log hclog.Logger }

func (c complaints) logger() *log.Logger { return log.New(c, "", 0) }

// Write logs one line.
func (c complaints) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if strings.HasSuffix(line, "EOF") || strings.HasSuffix(line, "connection reset by peer") {
		c.log.Debug(line)
	} else {
		c.log.Warn(line)
	}
	return len(p), nil
}
