package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Limits of what is fetched from a provider.
const (
	replyBytes = 1 << 20
	// Timeout is how long a fetch may take by default.
	Timeout = 10 * time.Second
	// keepFor is how long fetched keys and discovery documents are used.
	keepFor = time.Hour
	// refetchAfter is the least time between two fetches of the same thing.
	refetchAfter = 3 * time.Second
	redirectsMax = 5
	errorBytes   = 200
)

// NewClient makes a client that trusts the given PEM certificates, or those of the host when there are none. Its replies end
// with an error after replyBytes, and its requests after timeout.
func NewClient(pem []string, timeout time.Duration) (*http.Client, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxConnsPerHost: 16, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if len(pem) > 0 {
		pool, err := CertPool(pem)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{Transport: bounded{t}, Timeout: timeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return errors.New("refused a redirect of a request with secrets")
		}
		if len(via) >= redirectsMax {
			return fmt.Errorf("stopped after %d redirects", redirectsMax)
		}
		if r.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
			return errors.New("refused a redirect from https to " + r.URL.Scheme)
		}
		return nil
	}}, nil
}

// CertPool reads certificates in PEM.
func CertPool(pem []string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, p := range pem {
		if !pool.AppendCertsFromPEM([]byte(p)) {
			return nil, fault.New(fault.Invalid, "a CA certificate is not in PEM format")
		}
	}
	return pool, nil
}

// bounded limits the size of replies.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, replyBytes}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the reply of the provider has more than %d bytes", replyBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Get fetches a document.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, nil
}

// Short cuts the text of an error, which may contain the reply of a provider.
func Short(err error) error {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) <= errorBytes {
		return err
	}
	return errors.New(strings.ToValidUTF8(text[:errorBytes], "") + "...")
}

// Kept is something that is fetched from a provider and used for a while.
type Kept[V any] struct {
	// What is what a fetch does, for errors.
	What string
	// Timeout limits one fetch.
	Timeout time.Duration
	// Fetch fetches the value.
	Fetch func(context.Context) (V, error)

	flight singleflight.Group
	mu     sync.Mutex
	value  V
	have   bool
	err    error
	// fetched is when the value came, tried when the last fetch ended.
	fetched, tried time.Time
}

// Get returns the value, fetched again when it is old or when it does not fit. It may return a value that does not fit.
func (k *Kept[V]) Get(ctx context.Context, fits func(V) bool) (V, error) {
	if v, err, done := k.now(fits); done {
		return v, err
	}
	wait := k.flight.DoChan("", func() (any, error) {
		if _, _, done := k.now(fits); done {
			return nil, nil // another caller fetched it just before
		}
		// The fetch serves all callers that wait, so it does not end with the first of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.Timeout)
		defer cancel()
		v, err := k.Fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.tried, k.err = time.Now(), nil
		if err != nil {
			k.err = fault.New(fault.Unavailable, "%s: %w", k.What, Short(err))
			return nil, nil
		}
		k.value, k.have, k.fetched = v, true, k.tried
		return nil, nil
	})
	select {
	case <-wait:
	case <-ctx.Done():
		var none V
		return none, fault.New(fault.Timeout, "%s: %w", k.What, ctx.Err())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil && !k.young() {
		return k.value, k.err
	}
	return k.value, nil
}

func (k *Kept[V]) young() bool { return k.have && time.Since(k.fetched) < keepFor }

// now returns the value when no fetch is needed, or not allowed yet.
func (k *Kept[V]) now(fits func(V) bool) (v V, err error, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch recent := !k.tried.IsZero() && time.Since(k.tried) < refetchAfter; {
	case k.young() && (recent || fits(k.value)):
		return k.value, nil, true
	case recent:
		return v, k.err, true
	}
	return v, nil, false
}
