package httpapi_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// stalls is short, so that tests wait for what it ends.
const stalls = 100 * time.Millisecond

// site serves the API, and what tests need, with limits.
func site(t *testing.T, l httpapi.Limits, extra map[string]http.Handler, secure *tls.Config) string {
	t.Helper()
	return siteOf(t, httpapi.Config{Servers: world(), Extra: extra, Stall: stalls}, l, secure)
}

func siteOf(t *testing.T, c httpapi.Config, l httpapi.Limits, secure *tls.Config) string {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.Server(httpapi.New(c))
	guarded := l.Guard(s, raw, secure != nil, hclog.NewNullLogger())
	if secure != nil {
		guarded = tls.NewListener(guarded, secure)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(guarded) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return raw.Addr().String()
}

func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn
}

func TestABodyThatDoesNotComeEndsItsRequest(t *testing.T) {
	t.Parallel()
	address := site(t, httpapi.Limits{}, nil, nil)
	for what, head := range map[string]string{
		"a job":          "PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"a chunked job":  "PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"an unread body": "PUT /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
	} {
		conn := connect(t, address)
		_, _ = io.WriteString(conn, head)
		answer, err := io.ReadAll(conn) // ends when the server closes the connection
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
			t.Errorf("%s: %q, %v", what, answer, err)
		}
	}
}

func TestAnAnswerThatNobodyTakesEndsItsRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	address := site(t, httpapi.Limits{}, map[string]http.Handler{"/test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := bytes.Repeat([]byte("x"), 64<<10)
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})}, nil)
	conn := connect(t, address)
	_, _ = io.WriteString(conn, "GET /test/ HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the handler still writes")
	}
}

// A reader that waits longer than a client may stand still is no client that stands still.
func TestAReadThatWaitsIsNotEnded(t *testing.T) {
	t.Parallel()
	wait := make(chan struct{})
	address := site(t, httpapi.Limits{}, map[string]http.Handler{"/test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-wait:
		case <-r.Context().Done():
		}
		if err := r.Context().Err(); err != nil {
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}, nil)
	conn := connect(t, address)
	in := bufio.NewReader(conn)
	for range 3 { // the deadlines of one request are not those of the next one
		_, _ = io.WriteString(conn, "PUT /test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		timer := time.AfterFunc(3*stalls, func() { wait <- struct{}{} })
		answer, err := http.ReadResponse(in, nil)
		timer.Stop()
		if err != nil || answer.StatusCode != http.StatusNoContent {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
}

func TestOneClientHasSoManyConnections(t *testing.T) {
	t.Parallel()
	address := site(t, httpapi.Limits{ConnsPerClient: 2}, nil, nil)
	held := []net.Conn{connect(t, address), connect(t, address)}
	for _, conn := range held { // an answer says that it was accepted
		_, _ = io.WriteString(conn, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	if answer, err := io.ReadAll(connect(t, address)); err != nil || len(answer) > 0 {
		t.Errorf("a third one without a request: %q, %v", answer, err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := c.Post("http://"+address+"/v1/jobs", "", bytes.NewReader(make([]byte, 1<<20)))
			if err != nil {
				t.Errorf("a third one: %v", err)
				return
			}
			defer answer.Body.Close()
			if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(body), "too many connections") {
				t.Errorf("a third one: %s %q, %v", answer.Status, body, err)
			}
		})
	}
	all.Wait()
	_ = held[0].Close()
	for end := time.Now().Add(30 * time.Second); ; {
		conn := connect(t, address)
		_, _ = fmt.Fprint(conn, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no connection is accepted after one was closed")
		}
	}
}

func TestAHandshakeThatStandsStillEnds(t *testing.T) {
	t.Parallel()
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	defer made.Close()
	address := site(t, httpapi.Limits{Handshake: 50 * time.Millisecond}, map[string]http.Handler{"/test/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	})}, &tls.Config{Certificates: made.TLS.Certificates})
	if _, err := io.ReadAll(connect(t, address)); err != nil {
		t.Errorf("a client without a word: %v", err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test's own
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://" + address + "/test/")
	for end := time.Now().Add(30 * time.Second); err != nil; answer, err = client.Get("https://" + address + "/test/") {
		if time.Now().After(end) { // a busy machine may be too slow for some of the handshakes
			t.Fatal(err)
		}
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "served" {
		t.Errorf("%q, %v", body, err)
	}
}
