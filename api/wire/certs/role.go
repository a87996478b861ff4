package certs

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/wire"
)

// Role is what a certificate proves its holder to be.
type Role string

// Roles. A certificate carries them as DNS names, such as server.global.nomad.
const (
	RoleServer Role = "server"
	RoleClient Role = "client"
	RoleCLI    Role = "cli"
	// Unproven is the role of a peer whose certificate names none, or was not verified.
	Unproven Role = ""
)

// Domain ends the DNS names that carry roles.
const Domain = "nomad"

// Name is the DNS name by which a certificate proves the role in a region.
func (r Role) Name(region string) string { return string(r) + "." + region + "." + Domain }

// Identify returns the strongest role that a certificate names, and its region; home wins when
// it names several regions. It verifies nothing.
func Identify(cert *x509.Certificate, home string) (Role, string) {
	for _, role := range []Role{RoleServer, RoleClient, RoleCLI} {
		found := ""
		for _, name := range cert.DNSNames {
			region, ok := strings.CutPrefix(strings.ToLower(name), string(role)+".")
			if !ok {
				continue
			}
			region, ok = strings.CutSuffix(region, "."+Domain)
			switch {
			case !ok || region == "" || strings.Contains(region, "*"):
			case region == strings.ToLower(home):
				return role, home
			case found == "":
				found = region
			}
		}
		if found != "" {
			return role, found
		}
	}
	return Unproven, ""
}

// Describe returns one line about a certificate for errors.
func Describe(cert *x509.Certificate) string {
	names := strings.Join(cert.DNSNames, ", ")
	if names == "" {
		names = "no DNS names"
	}
	return fmt.Sprintf("certificate %q (%s; issued by %q; valid until %s)", cert.Subject.CommonName, names,
		cert.Issuer.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
}

// Refusal returns why a role may not use a protocol, or "". A peer without a
// role passes here: whether it must have one was decided in the handshake.
func (r Role) Refusal(protocol string) string {
	switch {
	case r == RoleCLI:
		return "a cli certificate opens the HTTP API only"
	case r == RoleClient && protocol == wire.ProtocolRaft:
		return "raft is for servers, the certificate is a client's"
	}
	return ""
}
