package tls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/certs"
)

// pair is a certificate and its key, both PEM.
type pair struct{ cert, key []byte }

// authority is what an authority is made from.
type authority struct {
	commonName, country, locality, organization, unit, postalCode, province, street string
	domain                                                                          string
	days                                                                            int
	constrain                                                                       bool
	additional                                                                      []string
}

func (a authority) make(now time.Time) (pair, error) {
	if err := checkWord("domain", a.domain); err != nil {
		return pair{}, err
	}
	if len(a.additional) > 0 && !a.constrain {
		return pair{}, fault.New(fault.Invalid, "-additional-domain needs -name-constraint")
	}
	cert, key, err := blank(a.days, now)
	if err != nil {
		return pair{}, err
	}
	cert.Subject = pkix.Name{
		CommonName: a.commonName, Country: some(a.country), Locality: some(a.locality), Organization: some(a.organization),
		OrganizationalUnit: some(a.unit), PostalCode: some(a.postalCode), Province: some(a.province), StreetAddress: some(a.street),
	}
	if a.commonName == "" {
		cert.Subject.CommonName = "Nomad Agent CA " + cert.SerialNumber.String()
	}
	cert.IsCA, cert.BasicConstraintsValid = true, true
	cert.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	if a.constrain {
		cert.PermittedDNSDomainsCritical = true
		cert.PermittedDNSDomains = []string{a.domain, "localhost"}
		if a.domain != certs.Domain {
			cert.PermittedDNSDomains = append(cert.PermittedDNSDomains, certs.Domain) // roles end with it
		}
		for _, d := range a.additional {
			if err := checkName("-additional-domain", d); err != nil {
				return pair{}, err
			}
			cert.PermittedDNSDomains = append(cert.PermittedDNSDomains, d)
		}
	}
	return sign(cert, cert, key, key)
}

// request is what a certificate is made from.
type request struct {
	role             certs.Role
	region, domain   string
	days             int
	names, addresses []string
}

func (r request) make(by *signer, now time.Time) (pair, error) {
	for what, word := range map[string]string{"domain": r.domain, "region": r.region} {
		if err := checkWord(what, word); err != nil {
			return pair{}, err
		}
	}
	cert, key, err := blank(r.days, now)
	if err != nil {
		return pair{}, err
	}
	if now.After(by.cert.NotAfter) {
		return pair{}, fault.New(fault.Invalid, "the authority expired at %s", by.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if cert.NotAfter.After(by.cert.NotAfter) {
		return pair{}, fault.New(fault.Invalid, "the certificate would outlive its authority, which expires at %s: use fewer -days",
			by.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	own := string(r.role) + "." + r.region + "." + r.domain
	cert.Subject.CommonName = own
	cert.DNSNames = []string{own, "localhost"}
	if r.domain != certs.Domain {
		cert.DNSNames = append(cert.DNSNames, r.role.Name(r.region))
	}
	cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if r.role != certs.RoleCLI {
		cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if err := r.add(cert); err != nil {
		return pair{}, err
	}
	made, err := sign(cert, by.cert, key, by.key)
	if err != nil {
		return pair{}, err
	}
	return made, by.stands(made)
}

// add adds the names that the user asked for.
func (r request) add(cert *x509.Certificate) error {
	for _, n := range r.names {
		if err := checkName("-additional-dnsname", n); err != nil {
			return err
		}
		cert.DNSNames = append(cert.DNSNames, n)
	}
	for _, a := range r.addresses {
		ip := net.ParseIP(a)
		if ip == nil {
			return fault.New(fault.Invalid, "-additional-ipaddress %q is not an IP address", a)
		}
		cert.IPAddresses = append(cert.IPAddresses, ip)
	}
	return nil
}

// blank is a certificate with its number and its time, and a new key.
func blank(days int, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	if days <= 0 || days > 100*365 {
		return nil, nil, fault.New(fault.Invalid, "-days %d is not between 1 and %d", days, 100*365)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now.Add(-time.Minute), // clocks differ
		NotAfter:     now.AddDate(0, 0, days),
	}, key, nil
}

func sign(cert, parent *x509.Certificate, key *ecdsa.PrivateKey, by crypto.Signer) (pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), by)
	if err != nil {
		return pair{}, fault.New(fault.Invalid, "sign certificate: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
	}, nil
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// checkWord accepts what may stand in a DNS name and in the name of a file.
func checkWord(what, s string) error {
	if err := checkName("-"+what, s); err != nil {
		return err
	}
	if what == "region" && strings.Contains(s, ".") {
		return fault.New(fault.Invalid, "-region %q must not contain dots", s)
	}
	return nil
}

func checkName(what, s string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(s, "*."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool { return !plain(r) }) {
			return fault.New(fault.Invalid, "%s %q is not a DNS name", what, s)
		}
	}
	if strings.HasPrefix(s, "*") && what != "-additional-dnsname" {
		return fault.New(fault.Invalid, "%s %q is not a DNS name", what, s)
	}
	return nil
}
