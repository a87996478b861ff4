package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/sessions"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/exec"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// bed is an agent whose way to a node loses and repeats calls.
type bed struct {
	*httptest.Server
	table *sessions.Table
	run   func(context.Context, *driver.Command) (int, error)

	mu sync.Mutex
	// lossy is set when calls get lost; dice decides which.
	lossy bool
	dice  *rand.Rand
	// denied is set when the servers refuse calls.
	denied bool
	token  string
	opened *api.ExecOpenRequest
	onNode bool
}

func newBed(t *testing.T, run func(context.Context, *driver.Command) (int, error)) *bed {
	t.Helper()
	return bedWith(t, exec.Routes, run)
}

func bedWith(t *testing.T, routes []endpoint.Route, run func(context.Context, *driver.Command) (int, error)) *bed {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := &bed{table: sessions.New(hclog.NewNullLogger()), run: run, dice: rand.New(rand.NewPCG(seed, 1))}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.table.Run(ctx) }()
	servers := wire.Direct(wire.AllocGet.Handle(func(_ context.Context, r *api.AllocRequest) (*api.AllocGetResponse, error) {
		b.mu.Lock()
		b.token = r.AuthToken
		b.mu.Unlock()
		if r.AllocID != "a1" {
			return &api.AllocGetResponse{}, nil
		}
		return &api.AllocGetResponse{Alloc: &api.Allocation{ID: "a1", NodeID: "n1", JobID: "j"}}, nil
	}))
	site := endpoint.NewServer(endpoint.Config{
		Servers: servers, Node: func(string) (wire.Caller, error) { return b, nil }, Log: hclog.NewNullLogger(), CPU: cpulimit.New(runtime.GOMAXPROCS(0)),
	}, routes)
	b.Server = httptest.NewServer(site)
	t.Cleanup(func() {
		b.Close()
		cancel()
		<-done
	})
	return b
}

// Invoke implements [wire.Caller]: the way to the node.
func (b *bed) Invoke(ctx context.Context, method string, req, resp any) error {
	b.mu.Lock()
	fate := 9
	if b.lossy {
		fate = b.dice.IntN(10)
	}
	denied := b.denied
	b.mu.Unlock()
	node := wire.Direct(
		wire.ClientAllocExecOpen.Handle(func(_ context.Context, r *api.ExecOpenRequest) (*api.ExecOpenResponse, error) {
			b.mu.Lock()
			b.opened = r
			b.mu.Unlock()
			args := r.Command
			if r.Action != "" {
				args = []string{"action " + r.Action}
			}
			return &api.ExecOpenResponse{OnNode: b.onNode}, b.table.Open(r.SessionID, sessions.Command{
				AllocID: r.AllocID, Task: r.Task, Args: args, TTY: r.TTY, OnNode: b.onNode, Run: b.run, Started: func() {},
			})
		}),
		wire.ClientAllocExec.Handle(func(ctx context.Context, r *api.ExecRequest) (*api.ExecResponse, error) {
			return b.table.Exchange(ctx, r, false)
		}),
		wire.ClientAllocNodeExec.Handle(func(ctx context.Context, r *api.ExecRequest) (*api.ExecResponse, error) {
			return b.table.Exchange(ctx, r, true)
		}),
	)
	switch {
	case denied:
		return fault.New(fault.Denied, "Permission denied")
	case fate < 2:
		return fault.New(fault.Unavailable, "lost on the way")
	case fate < 4:
		_ = node.Invoke(ctx, method, req, resp)
		return fault.New(fault.Unavailable, "the answer was lost")
	case fate < 6:
		go func() { _ = node.Invoke(ctx, method, req, reflect.New(reflect.TypeOf(resp).Elem()).Interface()) }() // it comes twice
	}
	return node.Invoke(ctx, method, req, resp)
}

func (b *bed) dial(t *testing.T, path string, query url.Values) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), b.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		body := []byte{}
		if resp != nil && resp.Body != nil {
			body, _ = io.ReadAll(resp.Body)
		}
		t.Fatalf("%v: %s", err, body)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

func (b *bed) exec(t *testing.T, args ...string) *websocket.Conn {
	t.Helper()
	command, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return b.dial(t, "/v1/client/allocation/a1/exec", url.Values{"task": {"t"}, "command": {string(command)}})
}

func tell(t *testing.T, conn *websocket.Conn, in any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, body); err != nil {
		t.Fatal(err)
	}
}

// hear reads until the WebSocket is closed, and returns the outputs, the last frame and how it was closed.
func hear(t *testing.T, conn *websocket.Conn) (stdout, stderr string, last api.ExecStreamingOutput, closed error) {
	t.Helper()
	var out, errs strings.Builder
	for {
		_, body, err := conn.Read(t.Context())
		if err != nil {
			return out.String(), errs.String(), last, err
		}
		last = api.ExecStreamingOutput{}
		if err := json.Unmarshal(body, &last); err != nil {
			t.Fatal(err)
		}
		if last.Stdout != nil {
			out.Write(last.Stdout.Data)
		}
		if last.Stderr != nil {
			errs.Write(last.Stderr.Data)
		}
	}
}

func cat(_ context.Context, c *driver.Command) (int, error) {
	_, err := io.Copy(c.Stdout, c.Stdin)
	return 7, err
}

func TestALossyWayLosesNoByte(t *testing.T) {
	t.Parallel()
	b := newBed(t, cat)
	b.lossy = true
	conn := b.exec(t, "cat")
	var parts []string
	for i := range 40 {
		parts = append(parts, strings.Repeat(fmt.Sprintf("%07d\n", i), 1+i*20))
	}
	want := strings.Join(parts, "")
	go func() {
		for _, part := range parts {
			tell(t, conn, api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Data: []byte(part)}})
			tell(t, conn, api.ExecStreamingInput{})
		}
		tell(t, conn, api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Close: true}})
	}()
	got, _, last, closed := hear(t, conn)
	if websocket.CloseStatus(closed) != websocket.StatusNormalClosure {
		t.Fatalf("%v", closed)
	}
	if got != want {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(want))
	}
	if !last.Exited || last.Result == nil || last.Result.ExitCode != 7 {
		t.Errorf("last frame: %+v", last)
	}
}

// TestFramesAreThoseOfTheCompatibleSystem: the ends of both outputs come before the exit code.
func TestFramesAreThoseOfTheCompatibleSystem(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(_ context.Context, c *driver.Command) (int, error) {
		_, _ = io.WriteString(c.Stderr, "err\n")
		_, _ = io.WriteString(c.Stdout, "out\n")
		return 0, nil
	})
	b.onNode = true
	conn := b.exec(t, "sh", "-c", "anything")
	var frames []string
	for {
		_, body, err := conn.Read(t.Context())
		if err != nil {
			break
		}
		frames = append(frames, string(body))
	}
	want := []string{`{"stderr":{"data":"ZXJyCg=="}}`, `{"stdout":{"data":"b3V0Cg=="}}`, `{"stdout":{"close":true}}`, `{"stderr":{"close":true}}`, `{"exited":true,"result":{}}`}
	if strings.Join(frames, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(frames, "\n"), strings.Join(want, "\n"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.opened; r.Task != "t" || len(r.Command) != 3 || r.TTY || r.From == "" {
		t.Errorf("opened %+v", r)
	}
}

func TestACommandEndsWithItsClient(t *testing.T) {
	t.Parallel()
	killed := make(chan struct{})
	b := newBed(t, func(ctx context.Context, c *driver.Command) (int, error) {
		_, _ = io.WriteString(c.Stdout, "here")
		<-ctx.Done()
		close(killed)
		return 0, ctx.Err()
	})
	conn := b.exec(t, "sleep")
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseNow()
	select {
	case <-killed:
	case <-time.After(20 * time.Second): // below the time after which the node ends a session by itself
		t.Error("the command still runs")
	}
}

func TestTheEndOfARightEndsTheSession(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(ctx context.Context, c *driver.Command) (int, error) {
		_, _ = io.WriteString(c.Stdout, "here")
		<-ctx.Done()
		return 0, ctx.Err()
	})
	conn := b.exec(t, "sleep")
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.denied = true
	b.mu.Unlock()
	_, _, _, closed := hear(t, conn)
	var why websocket.CloseError
	if !errors.As(closed, &why) || why.Code != websocket.StatusPolicyViolation || why.Reason != "Permission denied" {
		t.Errorf("%v", closed)
	}
}

func TestErrorsCloseTheSocket(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		code websocket.StatusCode
	}{
		"refused": {fault.New(fault.Invalid, "no program %q", "x"), websocket.StatusPolicyViolation},
		"broken":  {errors.New(strings.Repeat("ü", 200)), websocket.StatusInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, func(context.Context, *driver.Command) (int, error) { return 0, test.err })
			_, _, _, closed := hear(t, b.exec(t, "x"))
			var why websocket.CloseError
			if !errors.As(closed, &why) || why.Code != test.code || !strings.HasPrefix(test.err.Error(), strings.TrimSuffix(why.Reason, "...")) {
				t.Errorf("%v", closed)
			}
		})
	}
	b := newBed(t, cat)
	_, _, _, closed := hear(t, b.dial(t, "/v1/client/allocation/none/exec", url.Values{"task": {"t"}, "command": {`["x"]`}}))
	if websocket.CloseStatus(closed) != websocket.StatusPolicyViolation || !strings.Contains(closed.Error(), "Unknown allocation") {
		t.Errorf("unknown allocation: %v", closed)
	}
}

// TestForeignOriginsAreRefused: a page of another site opens no shell with the rights of the browser, and no command runs.
func TestForeignOriginsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, cat)
	at := b.URL + "/v1/client/allocation/a1/exec?task=t&command=" + url.QueryEscape(`["cat"]`)
	for origin, code := range map[string]int{"https://evil.example": 403, "null": 403, b.URL: 101, "": 101} {
		o := &websocket.DialOptions{HTTPHeader: http.Header{}}
		if origin != "" {
			o.HTTPHeader.Set("Origin", origin)
		}
		conn, resp, err := websocket.Dial(t.Context(), at, o)
		if resp == nil || resp.StatusCode != code {
			t.Errorf("origin %q: %v %v, want %d", origin, resp, err, code)
		}
		if err == nil {
			_ = conn.CloseNow()
		}
	}
}

func TestTheHandshakeHasTheToken(t *testing.T) {
	t.Parallel()
	b := newBed(t, cat)
	query := url.Values{"task": {"t"}, "command": {`["cat"]`}, "ws_handshake": {"true"}}
	conn := b.dial(t, "/v1/client/allocation/a1/exec", query)
	tell(t, conn, api.ExecHandshake{Version: 1, AuthToken: "secret"})
	tell(t, conn, api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Data: []byte("x"), Close: true}})
	if out, _, _, closed := hear(t, conn); out != "x" || websocket.CloseStatus(closed) != websocket.StatusNormalClosure {
		t.Errorf("%q, %v", out, closed)
	}
	b.mu.Lock()
	if b.token != "secret" {
		t.Errorf("token %q", b.token)
	}
	b.mu.Unlock()
	conn = b.dial(t, "/v1/client/allocation/a1/exec", query)
	tell(t, conn, api.ExecHandshake{Version: 2})
	if _, _, _, closed := hear(t, conn); websocket.CloseStatus(closed) != websocket.StatusPolicyViolation {
		t.Errorf("version 2: %v", closed)
	}
}

func TestActionsNeedAnAllocationOfTheirJob(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(_ context.Context, c *driver.Command) (int, error) {
		_, err := io.WriteString(c.Stdout, c.Args[0])
		return 0, err
	})
	query := url.Values{"task": {"t"}, "action": {"dump"}, "allocID": {"a1"}}
	if out, _, _, closed := hear(t, b.dial(t, "/v1/job/j/action", query)); websocket.CloseStatus(closed) != websocket.StatusNormalClosure || out != "action dump" {
		t.Errorf("%q, %v", out, closed)
	}
	if _, _, _, closed := hear(t, b.dial(t, "/v1/job/other/action", query)); !strings.Contains(closed.Error(), "belongs to job") {
		t.Errorf("%v", closed)
	}
}

func TestWhatIsMissingIsRefusedBeforeTheSocket(t *testing.T) {
	t.Parallel()
	b := newBed(t, cat)
	for path, want := range map[string]string{
		"/v1/client/allocation/a1/exec":                                     "task",
		"/v1/client/allocation/a1/exec?task=t":                              "JSON list",
		"/v1/client/allocation/a1/exec?task=t&command=ls":                   "JSON list",
		"/v1/client/allocation/a1/exec?task=t&command=[]":                   "JSON list",
		"/v1/client/allocation/a1/exec?task=t&command=[%22ls%22]&tty=maybe": "tty",
		"/v1/client/allocation/a1/exec?task=t&command=[%22ls%22]":           "WebSocket",
		"/v1/job/j/action?action=x&task=t":                                  "allocID",
		"/v1/job/j/action?allocID=a1&task=t":                                "action",
	} {
		resp, err := http.Get(b.URL + path) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}
