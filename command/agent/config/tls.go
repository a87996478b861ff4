package config

import (
	"crypto/tls"
	"fmt"
	"strings"
)

// TLS is the tls block.
type TLS struct {
	HTTP                 bool   `hcl:"http"`
	RPC                  bool   `hcl:"rpc"`
	CAFile               string `hcl:"ca_file"`
	CertFile             string `hcl:"cert_file"`
	KeyFile              string `hcl:"key_file"`
	VerifyServerHostname bool   `hcl:"verify_server_hostname"`
	VerifyHTTPSClient    bool   `hcl:"verify_https_client"`
	RPCUpgradeMode       bool   `hcl:"rpc_upgrade_mode"`
	// MinVersion and CipherSuites are for HTTPS; agents speak TLS 1.3 among themselves.
	MinVersion   string `hcl:"tls_min_version"`
	CipherSuites string `hcl:"tls_cipher_suites"`
}

// Enabled reports whether any certificate is used.
func (t TLS) Enabled() bool { return t.HTTP || t.RPC }

// Version is the lowest TLS version of HTTPS.
func (t TLS) Version() (uint16, error) {
	switch strings.ToLower(t.MinVersion) {
	case "", "tls12":
		return tls.VersionTLS12, nil
	case "tls10":
		return tls.VersionTLS10, nil
	case "tls11":
		return tls.VersionTLS11, nil
	case "tls13":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("tls.tls_min_version %q is not one of tls10, tls11, tls12, tls13", t.MinVersion)
}

// Suites are the cipher suites of HTTPS up to TLS 1.2; none means Go's choice.
func (t TLS) Suites() ([]uint16, error) {
	var suites []uint16
	for name := range strings.SplitSeq(t.CipherSuites, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		found := false
		for _, s := range tls.CipherSuites() {
			if s.Name == name {
				suites, found = append(suites, s.ID), true
			}
		}
		if !found {
			return nil, fmt.Errorf("tls.tls_cipher_suites: %q is unknown or not safe", name)
		}
	}
	return suites, nil
}

// wrong lists what is wrong with the block itself; the files are read when the agent starts.
func (t TLS) wrong() []error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(t.Enabled() && (t.CertFile == "" || t.KeyFile == ""), "tls.cert_file and tls.key_file are both needed with tls.http and tls.rpc")
	add(t.RPC && t.CAFile == "", "tls.ca_file is needed with tls.rpc")
	add(t.HTTP && t.VerifyHTTPSClient && t.CAFile == "", "tls.ca_file is needed with tls.verify_https_client")
	add(t.VerifyServerHostname && !t.RPC, "tls.verify_server_hostname needs tls.rpc = true")
	add(t.VerifyHTTPSClient && !t.HTTP, "tls.verify_https_client needs tls.http = true")
	if _, err := t.Version(); err != nil {
		errs = append(errs, err)
	}
	if _, err := t.Suites(); err != nil {
		errs = append(errs, err)
	}
	return errs
}
