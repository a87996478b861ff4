package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// proxy hands gRPC calls on. All calls of the CSI are unary, so bodies are read whole.
type proxy struct {
	dir, node string
	// own are the calls that are not handed on but carried out here, with their messages.
	own    map[string]func(message []byte) error
	client *http.Client
	calls  atomic.Int64
}

// prefix is what stands before each message: a flag and a length.
const prefix = 5

func newProxy(dir, node, inner string, own map[string]func([]byte) error) *proxy {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", inner)
	}
	return &proxy{dir: dir, node: node, own: own, client: &http.Client{Transport: &http.Transport{DialContext: dial, Protocols: plainHTTP2()}}}
}

// answer is a response before it is written.
type answer struct {
	header, trailer http.Header
	body            []byte
}

func status(code int, text string) answer {
	return answer{header: http.Header{
		"Content-Type": {"application/grpc"}, "Grpc-Status": {strconv.Itoa(code)}, "Grpc-Message": {url.PathEscape(text)},
	}}
}

func (a answer) code() (int, string) {
	h := a.trailer
	if h.Get("Grpc-Status") == "" {
		h = a.header
	}
	code, _ := strconv.Atoi(h.Get("Grpc-Status"))
	return code, h.Get("Grpc-Message")
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call := p.describe(path.Base(r.URL.Path), body)
	p.note(call)
	a := p.decide(r, call, body)
	call.Done, call.At = true, time.Now()
	call.Code, call.Text = a.code()
	if r.Context().Err() != nil {
		call.Code, call.Text = 1, "the caller went away"
	}
	p.note(call)
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(a.body)
	for k, v := range a.trailer {
		w.Header()[http.TrailerPrefix+k] = v
	}
}

// note leaves out what is asked all the time.
func (p *proxy) note(e script.Event) {
	if e.RPC == "Probe" || strings.HasSuffix(e.RPC, "GetCapabilities") || strings.HasPrefix(e.RPC, "GetPlugin") || e.RPC == "NodeGetInfo" {
		return
	}
	if err := script.Append(p.dir, e); err != nil {
		fmt.Fprintln(os.Stderr, "faulty driver:", err)
	}
}

func (p *proxy) describe(rpc string, body []byte) script.Event {
	e := script.Event{
		ID: fmt.Sprintf("%s-%d-%d", p.node, os.Getpid(), p.calls.Add(1)), Node: p.node, RPC: rpc, At: time.Now(),
	}
	if len(body) < prefix {
		return e
	}
	switch message := body[prefix:]; rpc {
	case "ControllerPublishVolume", "ControllerUnpublishVolume":
		e.Volume, e.To = text(message, 1), text(message, 2)
	case "DeleteVolume", "ControllerExpandVolume", "CreateVolume", "ValidateVolumeCapabilities", "CreateSnapshot", "DeleteSnapshot":
		e.Volume, e.To = text(message, 1), script.Anywhere
	default:
		if strings.HasPrefix(rpc, "Node") {
			e.Volume = text(message, 1)
		}
	}
	if rpc == "CreateVolume" {
		for key, value := range pairs(body[prefix:], createParameters) {
			e.Parameters = append(e.Parameters, key+"="+value)
		}
	}
	return e
}

// decide serves a call by the script, or forwards it to the driver.
func (p *proxy) decide(r *http.Request, call script.Event, body []byte) answer {
	if refused, err := p.admits(call.RPC, body); err != nil {
		return status(internal, err.Error())
	} else if refused != "" {
		return status(unauthenticated, refused)
	}
	f, err := script.Find(p.dir, call)
	if err != nil {
		return status(internal, err.Error())
	}
	if f == nil {
		return p.pass(r.Context(), r.URL.Path, call, body)
	}
	if !wait(r.Context(), f.Delay, nil) {
		return status(1, "the caller went away")
	}
	if f.Lost {
		// The driver does its work whatever becomes of the caller.
		p.pass(context.WithoutCancel(r.Context()), r.URL.Path, call, body)
	}
	if f.Hang {
		gone := func() bool {
			now, err := script.Find(p.dir, call)
			return err == nil && (now == nil || !now.Hang)
		}
		wait(r.Context(), time.Hour, gone)
	}
	if f.Code != 0 {
		return status(f.Code, f.Text)
	}
	return p.pass(r.Context(), r.URL.Path, call, body)
}

// admits looks at the secrets of a call. What it refuses it explains in the way of careless drivers: with the
// secret, and in several lines.
func (p *proxy) admits(rpc string, body []byte) (refused string, err error) {
	want, err := script.Password(p.dir)
	field, has := secretField[rpc]
	if err != nil || want == "" || !has || len(body) < prefix {
		return "", err
	}
	if got := pairs(body[prefix:], field)[script.PasswordKey]; got != want {
		return fmt.Sprintf("login failed\n  user: admin\n  password: %s\nask the administrator of the array", got), nil
	}
	return "", nil
}

// wait waits until the time has passed or the condition is true; it returns false when the caller's context has ended.
func wait(ctx context.Context, d time.Duration, over func() bool) bool {
	end := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return true
		case <-tick.C:
			if over != nil && over() {
				return true
			}
		}
	}
}

func (p *proxy) pass(ctx context.Context, method string, call script.Event, body []byte) answer {
	if a, done := p.mounts(call.RPC, body); done {
		return a
	}
	cut := p.fences(call)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://driver"+method, bytes.NewReader(body))
	if err != nil {
		return status(internal, err.Error())
	}
	r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	if left, ok := ctx.Deadline(); ok {
		r.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", time.Until(left).Milliseconds()))
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return status(14, err.Error())
	}
	defer resp.Body.Close()
	out := answer{header: resp.Header}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return status(14, err.Error())
	}
	out.trailer = resp.Trailer
	if code, _ := out.code(); code == 0 && cut {
		if err := p.cutOff(call); err != nil {
			return status(internal, err.Error())
		}
	}
	return out
}
