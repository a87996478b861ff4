package rest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// execBeat is how often the client shows that it is there.
	execBeat = 10 * time.Second
	// execInput is how many bytes of input a message has at most, execMessageMax limits the messages of the agent.
	execInput      = 16 << 10
	execMessageMax = 4 << 20
)

// ExecOptions say what to run in a task and connect it.
type ExecOptions struct {
	Task string
	TTY  bool
	// Command is the program with its arguments; Action is an action of Job to run instead.
	Command     []string
	Job, Action string
	// Stdin is the input; nil closes it. A read that waits does not hold up the end.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Sizes are those of the terminal; nil when there is none.
	Sizes <-chan api.TerminalSize
}

// Exec runs a command, or an action, in a task of an allocation and returns its exit code.
func (c *Client) Exec(ctx context.Context, alloc string, o ExecOptions) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.dialExec(ctx, alloc, o)
	if err != nil {
		return 0, err
	}
	var senders sync.WaitGroup
	defer senders.Wait()
	defer cancel()
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(execMessageMax)
	s := sender{ctx: ctx, conn: conn}
	go s.input(o.Stdin) // a read of a terminal cannot be interrupted
	senders.Go(func() { s.others(o.Sizes) })
	return receiveExec(ctx, c, conn, o)
}

// dialExec opens the WebSocket, which needs HTTP/1.1.
func (c *Client) dialExec(ctx context.Context, alloc string, o ExecOptions) (*websocket.Conn, error) {
	path, v := []string{"client", "allocation", alloc, "exec"}, url.Values{"task": {o.Task}, "tty": {strconv.FormatBool(o.TTY)}}
	if o.Action != "" {
		path = []string{"job", o.Job, "action"}
		v.Set("action", o.Action)
		v.Set("allocID", alloc)
	} else {
		command, err := json.Marshal(o.Command)
		if err != nil {
			return nil, fault.New(fault.Invalid, "encode command: %w", err)
		}
		v.Set("command", string(command))
	}
	r, err := c.request(ctx, http.MethodGet, path, v, nil)
	if err != nil {
		return nil, err
	}
	own := *c.http
	if t, ok := own.Transport.(*http.Transport); ok {
		t = t.Clone()
		t.ForceAttemptHTTP2, t.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
		if t.TLSClientConfig != nil {
			t.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		t.DisableKeepAlives = true
		own.Transport = t
	}
	conn, resp, err := websocket.Dial(ctx, r.URL.String(), &websocket.DialOptions{HTTPClient: &own, HTTPHeader: r.Header})
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case resp == nil:
		return nil, fault.New(fault.Unavailable, "reach agent at %s: %w", c.Address(), c.explain(err))
	}
	body := []byte{}
	if resp.Body != nil {
		body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	}
	return nil, c.execError(resp.StatusCode, strings.TrimSpace(string(body)), r.URL.Path)
}

func (c *Client) execError(code int, text, path string) error {
	_, path, _ = strings.Cut(path, "/v1/")
	return &Error{Code: code, Text: text, Method: http.MethodGet, Path: path, Namespace: c.Namespace()}
}

// receiveExec writes what the command prints until it ends.
func receiveExec(ctx context.Context, c *Client, conn *websocket.Conn, o ExecOptions) (int, error) {
	for {
		_, body, err := conn.Read(ctx)
		var closed websocket.CloseError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errors.As(err, &closed) && closed.Code == websocket.StatusInternalError:
			return 0, &Error{Code: http.StatusInternalServerError, Text: closed.Reason}
		case errors.As(err, &closed) && closed.Reason != "":
			return 0, fault.New(fault.Invalid, "%s", closed.Reason)
		default:
			return 0, fault.New(fault.Unavailable, "the connection to the agent at %s broke before the command ended: %w", c.Address(), err)
		}
		var out api.ExecStreamingOutput
		if err := json.Unmarshal(body, &out); err != nil {
			return 0, fault.New(fault.Internal, "decode message of the command: %w", err)
		}
		if out.Stdout != nil && len(out.Stdout.Data) > 0 {
			if _, err := o.Stdout.Write(out.Stdout.Data); err != nil {
				return 0, err
			}
		}
		if out.Stderr != nil && len(out.Stderr.Data) > 0 {
			if _, err := o.Stderr.Write(out.Stderr.Data); err != nil {
				return 0, err
			}
		}
		if !out.Exited {
			continue
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
		if out.Result == nil {
			return 0, nil
		}
		return out.Result.ExitCode, nil
	}
}

// sender sends messages to the command. Errors show when the connection is read.
type sender struct {
	ctx  context.Context
	conn *websocket.Conn
}

func (s sender) send(in api.ExecStreamingInput) bool {
	body, err := json.Marshal(in)
	return err == nil && s.conn.Write(s.ctx, websocket.MessageText, body) == nil
}

// input sends the input and its end.
func (s sender) input(from io.Reader) {
	buf := make([]byte, execInput)
	for from != nil {
		n, err := from.Read(buf)
		if n > 0 && !s.send(api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Data: buf[:n]}}) {
			return
		}
		if err != nil {
			break
		}
	}
	s.send(api.ExecStreamingInput{Stdin: &api.ExecStreamingIO{Close: true}})
}

// others sends the sizes of the terminal and signs of life.
func (s sender) others(sizes <-chan api.TerminalSize) {
	beat := time.NewTicker(execBeat)
	defer beat.Stop()
	for {
		var in api.ExecStreamingInput
		select {
		case size := <-sizes:
			in.TTYSize = &size
		case <-beat.C:
		case <-s.ctx.Done():
			return
		}
		if !s.send(in) {
			return
		}
	}
}
