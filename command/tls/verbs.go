package tls

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/command/session"
)

// placeholder stands for the domain in the names of default files.
const placeholder = "#DOMAIN#"

// Group is "nomad tls".
func Group() *cli.Command {
	return session.Group("tls", "make certificates for the cluster",
		session.Group("ca", "the certificate authority", CreateAuthority("create"), AuthorityInfo("info")),
		session.Group("cert", "the certificates of agents and users", CreateCertificate("create"), CertificateInfo("info")))
}

// CreateAuthority is "nomad tls ca create".
func CreateAuthority(name string) *cli.Command {
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "additional-domain", Usage: "additional `domain` for certificates; needs -name-constraint; may be repeated"},
		&cli.StringFlag{Name: "common-name", Usage: "common `name` of the authority"},
		&cli.IntFlag{Name: "days", Value: 1825, Usage: "`days` for which the authority is valid"},
		&cli.StringFlag{Name: "domain", Value: certs.Domain, Usage: "`domain` of the cluster"},
		&cli.BoolFlag{Name: "name-constraint", Usage: "restrict the authority to names of the domain"},
	}
	for _, n := range []string{"country", "locality", "organization", "organizational-unit", "postal-code", "province", "street-address"} {
		flags = append(flags, &cli.StringFlag{Name: n, Usage: strings.ReplaceAll(n, "-", " ") + " of the authority"})
	}
	return session.Verb{
		Name: name, Usage: "create a certificate authority and its key in the current directory", Offline: true, Flags: flags,
		Run: func(_ context.Context, s *session.Session) error {
			a := authority{
				commonName: s.String("common-name"), country: s.String("country"), locality: s.String("locality"),
				organization: s.String("organization"), unit: s.String("organizational-unit"), postalCode: s.String("postal-code"),
				province: s.String("province"), street: s.String("street-address"), domain: s.String("domain"),
				days: s.Int("days"), constrain: s.Bool("name-constraint"), additional: s.Strings("additional-domain"),
			}
			pair, err := a.make(time.Now())
			if err != nil {
				return session.Failed("creating the certificate authority", err)
			}
			return save(s, pair, "CA certificate", a.domain+"-agent-ca")
		},
	}.Command()
}

// CreateCertificate is "nomad tls cert create".
func CreateCertificate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create a certificate and its key in the current directory", Offline: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "server", Usage: "create a certificate for servers"},
			&cli.BoolFlag{Name: "client", Usage: "create a certificate for clients"},
			&cli.BoolFlag{Name: "cli", Usage: "create a certificate for users of the command line"},
			&cli.StringFlag{Name: "region", Usage: "`region` of the certificate, global by default (NOMAD_REGION)"},
			&cli.StringFlag{Name: "domain", Value: certs.Domain, Usage: "`domain` of the cluster"},
			&cli.StringFlag{Name: "ca", Value: placeholder + "-agent-ca.pem", Usage: "`file` with the authority's certificate"},
			&cli.StringFlag{Name: "key", Value: placeholder + "-agent-ca-key.pem", Usage: "`file` with the authority's key"},
			&cli.IntFlag{Name: "days", Value: 365, Usage: "`days` for which the certificate is valid"},
			&cli.StringSliceFlag{Name: "additional-dnsname", Usage: "additional DNS `name`; localhost is always included; may be repeated"},
			&cli.StringSliceFlag{Name: "additional-ipaddress", Usage: "additional IP `address`; 127.0.0.1 is always included; may be repeated"},
		},
		Run: func(_ context.Context, s *session.Session) error {
			r := request{
				region: region(s), domain: s.String("domain"), days: s.Int("days"),
				names: s.Strings("additional-dnsname"), addresses: s.Strings("additional-ipaddress"),
			}
			var err error
			if r.role, err = chosen(s); err != nil {
				return err
			}
			ca, key := strings.Replace(s.String("ca"), placeholder, r.domain, 1), strings.Replace(s.String("key"), placeholder, r.domain, 1)
			signer, err := readSigner(ca, key)
			if err != nil {
				return session.Failed("reading the certificate authority", err)
			}
			pair, err := r.make(signer, time.Now())
			if err != nil {
				return session.Failed("creating the certificate", err)
			}
			return save(s, pair, titles[r.role], fmt.Sprintf("%s-%s-%s", r.region, r.role, r.domain))
		},
	}.Command()
}

var titles = map[certs.Role]string{
	certs.RoleServer: "Server Certificate", certs.RoleClient: "Client Certificate", certs.RoleCLI: "CLI Certificate",
}

func region(s *session.Session) string {
	for _, r := range []string{s.String("region"), os.Getenv("NOMAD_REGION")} {
		if r != "" {
			return r
		}
	}
	return "global"
}

// chosen is the one role that the flags name.
func chosen(s *session.Session) (certs.Role, error) {
	var roles []certs.Role
	for _, r := range []certs.Role{certs.RoleServer, certs.RoleClient, certs.RoleCLI} {
		if s.Bool(string(r)) {
			roles = append(roles, r)
		}
	}
	if len(roles) != 1 {
		return "", &session.Exit{Code: 1, Text: "Please provide exactly one of -server, -client, -cli"}
	}
	return roles[0], nil
}

// AuthorityInfo is "nomad tls ca info".
func AuthorityInfo(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a certificate authority", Args: "<CA file>", Min: 1, Max: 1, Offline: true,
		Run: func(_ context.Context, s *session.Session) error {
			cert, err := readCertificate(s.Arg(0))
			if err != nil {
				return session.Failed("reading the certificate authority", err)
			}
			if !cert.IsCA {
				return session.Failed("reading the certificate authority", notAuthority(s.Arg(0)))
			}
			s.Print(authorityText(cert))
			return nil
		},
	}.Command()
}

// CertificateInfo is "nomad tls cert info".
func CertificateInfo(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a certificate", Args: "<certificate file>", Min: 1, Max: 1, Offline: true,
		Run: func(_ context.Context, s *session.Session) error {
			cert, err := readCertificate(s.Arg(0))
			if err != nil {
				return session.Failed("reading the certificate", err)
			}
			s.Print(certificateText(cert))
			return nil
		},
	}.Command()
}
