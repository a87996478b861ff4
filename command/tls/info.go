package tls

import (
	"crypto/x509"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/command/view"
)

func authorityText(c *x509.Certificate) string {
	return view.Pairs(append(common(c),
		[2]string{"Permitted DNS Domains", view.OrNone(strings.Join(c.PermittedDNSDomains, ", "))})...)
}

func certificateText(c *x509.Certificate) string {
	addresses := make([]string, len(c.IPAddresses))
	for i, a := range c.IPAddresses {
		addresses[i] = a.String()
	}
	role, region := certs.Identify(c, "")
	proves := ""
	if role != certs.Unproven {
		proves = string(role) + " of region " + region
	}
	return view.Pairs(append(common(c),
		[2]string{"DNS Names", view.OrNone(strings.Join(c.DNSNames, ", "))},
		[2]string{"IP Addresses", view.OrNone(strings.Join(addresses, ", "))},
		[2]string{"Role", view.OrNone(proves)})...)
}

func common(c *x509.Certificate) [][2]string {
	return [][2]string{
		{"Serial Number", c.SerialNumber.String()},
		{"Issuer CN", c.Issuer.CommonName},
		{"Common Name", c.Subject.CommonName},
		{"Certificate Authority", strconv.FormatBool(c.IsCA)},
		{"Not Before", view.Time(c.NotBefore)},
		{"Expiry Date", view.Time(c.NotAfter)},
	}
}
