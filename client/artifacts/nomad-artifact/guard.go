package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	dialTimeout = 30 * time.Second
	maxHops     = 10
)

// metadata are the addresses outside of link-local networks at which clouds hand out credentials of the machine.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}

func refused(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || slices.Contains(metadata, ip) {
		return fmt.Errorf("address %s is refused: it is link-local or a metadata service", ip)
	}
	return nil
}

// dialer refuses addresses after names are resolved.
var dialer = &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return refused(at.Addr())
}}

// checkHost refuses a host whose address is refused. It is for connections that other programs make.
func checkHost(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return refused(ip)
	}
	if host == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // a proxy may know the name, or an alias of the programs
	}
	for _, ip := range found {
		if err := refused(ip); err != nil {
			return err
		}
	}
	return nil
}

// transport makes HTTP requests of the download.
type transport struct {
	http.RoundTripper
	// left is how many bytes of content may still be received; negative means any number.
	max int64
}

func newTransport(insecure, proxied bool, limit int64) *transport {
	t := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout, DisableKeepAlives: true,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // what the job asks for
		MaxResponseHeaderBytes: 1 << 20,
	}
	if proxied {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &transport{t, limit}
}

// RoundTrip limits the content of responses.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || t.max <= 0 {
		return resp, err
	}
	if resp.ContentLength > t.max {
		resp.Body.Close()
		return nil, fmt.Errorf("the response has %d bytes, more than http_max_size of client.artifact, %d", resp.ContentLength, t.max)
	}
	resp.Body = &limited{resp.Body, t.max, t.max}
	return resp, nil
}

func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("a redirect to scheme %q is refused", u.Scheme)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return refused(ip)
	}
	return nil
}

func redirect(r *http.Request, via []*http.Request) error {
	if len(via) >= maxHops {
		return fmt.Errorf("more than %d redirects", maxHops)
	}
	return checkURL(r.URL)
}

// limited is a body that is an error beyond its limit: a shorter file would look complete.
type limited struct {
	io.ReadCloser
	left, max int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("the response has more bytes than http_max_size of client.artifact, %d", l.max)
	}
	return n, err
}

// proxies are the variables that name the proxies of programs.
var proxies = []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}

func proxied() bool {
	return slices.ContainsFunc(proxies, func(name string) bool { return os.Getenv(name) != "" })
}

// guardOthers starts a proxy on the loopback that refuses addresses, and sets it for all that does not use our transport:
// git, hg and the clients of object stores. A proxy of the operator stays.
func guardOthers() error {
	if proxied() {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for git and others: %w", err)
	}
	plain := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: &http.Transport{DialContext: dialer.DialContext}}
	server := &http.Server{ReadHeaderTimeout: dialTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			plain.ServeHTTP(w, r)
			return
		}
		if err := tunnel(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	})}
	go server.Serve(l)
	for _, name := range proxies[:4] {
		if err := os.Setenv(name, "http://"+l.Addr().String()); err != nil {
			return err
		}
	}
	return nil
}

// tunnel joins a connection with the host that it asks for.
func tunnel(w http.ResponseWriter, r *http.Request) error {
	to, err := dialer.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		return err
	}
	defer to.Close()
	taker, ok := w.(http.Hijacker)
	if !ok {
		return errors.New("the connection cannot be taken over")
	}
	from, buffered, err := taker.Hijack()
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return nil
	}
	go func() {
		_, _ = io.Copy(to, buffered)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(from, to)
	return nil
}
