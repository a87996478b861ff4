package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// DefaultAddress is the default address of an agent.
const DefaultAddress = "http://127.0.0.1:4646"

// Config configures a client. The zero value is the default address, without TLS and token.
type Config struct {
	// Address is http://, https:// or unix:// with a path.
	Address   string
	Region    string
	Namespace string
	Token     string
	// User and Password are for basic authentication in front of the API.
	User     string
	Password string
	TLS      TLS
}

// FromEnvironment reads the NOMAD_* variables.
func FromEnvironment() Config {
	user, password, _ := strings.Cut(os.Getenv("NOMAD_HTTP_AUTH"), ":")
	skip, _ := strconv.ParseBool(os.Getenv("NOMAD_SKIP_VERIFY"))
	return Config{
		Address:   os.Getenv("NOMAD_ADDR"),
		Region:    os.Getenv("NOMAD_REGION"),
		Namespace: os.Getenv("NOMAD_NAMESPACE"),
		Token:     os.Getenv("NOMAD_TOKEN"),
		User:      user,
		Password:  password,
		TLS: TLS{
			CACert:     os.Getenv("NOMAD_CACERT"),
			CAPath:     os.Getenv("NOMAD_CAPATH"),
			ClientCert: os.Getenv("NOMAD_CLIENT_CERT"),
			ClientKey:  os.Getenv("NOMAD_CLIENT_KEY"),
			ServerName: os.Getenv("NOMAD_TLS_SERVER_NAME"),
			SkipVerify: skip,
		},
	}
}

// Times of connections.
const (
	dialTimeout = 10 * time.Second
	keepIdle    = 90 * time.Second
)

// New makes a client. It does not connect yet.
func New(c Config) (*Client, error) {
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	base, err := url.Parse(c.Address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "address %q: %w", c.Address, err)
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     keepIdle,
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
	}
	switch base.Scheme {
	case "http", "https":
		if base.Host == "" {
			return nil, fault.New(fault.Invalid, "address %q names no host", c.Address)
		}
	case "unix":
		transport.Proxy = nil
		transport.DialContext = unixDialer(dialer, base.Host+base.Path)
		base = &url.URL{Scheme: "http", Host: "127.0.0.1"}
	default:
		return nil, fault.New(fault.Invalid, "address %q begins neither with http:// nor https:// nor unix://", c.Address)
	}
	if transport.TLSClientConfig, err = c.TLS.config(); err != nil {
		return nil, err
	}
	return &Client{config: c, base: base, http: &http.Client{Transport: transport, CheckRedirect: redirect}}, nil
}

// redirectsMax is how many redirects are followed.
const redirectsMax = 10

// redirect follows a redirect. Tokens, secrets and what is written are the agent's business: another host, or the
// same one by another scheme, is told none of them.
func redirect(r *http.Request, via []*http.Request) error {
	if len(via) >= redirectsMax {
		return fmt.Errorf("more than %d redirects", redirectsMax)
	}
	if first := via[0].URL; r.URL.Host == first.Host && r.URL.Scheme == first.Scheme {
		return nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return fmt.Errorf("redirected to %s://%s: only reads go to another address", r.URL.Scheme, r.URL.Host)
	}
	clear(r.Header)
	return nil
}
