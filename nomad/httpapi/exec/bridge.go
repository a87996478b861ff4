package exec

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

const (
	// pollWait is how long one call waits on the node. Rights are compared in each call: so soon a deleted token counts.
	pollWait = 5 * time.Second
	// callTimeout limits a call beyond its wait.
	callTimeout = 10 * time.Second
	// retryMax and openMax are how long calls that get no answer are repeated. The node keeps a session for 30 seconds.
	retryMax = 25 * time.Second
	openMax  = 5 * time.Second
	// stopTimeout limits the call that ends a session.
	stopTimeout = 5 * time.Second
	// pingEvery is how often an idle client is asked for a sign of life, pingTimeout how long a ping may take.
	pingEvery   = 15 * time.Second
	pingTimeout = 5 * time.Second
	// writeTimeout limits a message to the client: one that reads nothing for so long is treated as disconnected.
	writeTimeout = 5 * time.Minute
	// sizeWait is how long a command with a terminal waits for the first message.
	sizeWait = 500 * time.Millisecond
	// inputMax is how many bytes of input are in one call.
	inputMax   = 32 << 10
	retryFirst = 100 * time.Millisecond
	retryLast  = time.Second
)

// errLeft means that the client closed the connection.
var errLeft = errors.New("the client has left")

// session is a session on a node, as its caller sees it.
type session struct {
	call   *endpoint.Call
	node   string
	opened *api.ExecOpenRequest
	method wire.Method[api.ExecRequest, api.ExecResponse]
	// pause is how long the client may read nothing; writing is set while a message waits for it to read.
	pause   time.Duration
	writing atomic.Bool
}

// open opens a session on a node. It starts nothing.
func open(c *endpoint.Call, node string, r *api.ExecOpenRequest, pause time.Duration) (*session, error) {
	s := &session{call: c, node: node, opened: r, method: wire.ClientAllocExec, pause: pause}
	r.QueryOptions = only(c)
	out, err := repeat(c.Context(), s, openMax, func(ctx context.Context, node wire.Caller) (*api.ExecOpenResponse, error) {
		own := *r // the servers take the token out of it
		return wire.ClientAllocExecOpen.Call(ctx, node, &own)
	})
	if err != nil {
		return nil, err
	}
	if out.OnNode {
		s.method = wire.ClientAllocNodeExec
	}
	return s, nil
}

// bridge connects the client to the session until the command has ended or the client has left. A read or a write that is
// canceled closes the connection, so both have the context of the request.
func (s *session) bridge(conn *websocket.Conn, work *sync.WaitGroup) error {
	ctx, cancel := context.WithCancelCause(s.call.Context())
	defer cancel(nil)
	first := make(chan struct{})
	work.Go(func() { cancel(s.receive(ctx, conn, sync.OnceFunc(func() { close(first) }))) })
	work.Go(func() { s.ping(ctx, conn) })
	if s.opened.TTY { // the first message is usually the size of the terminal, which programs read at their start
		select {
		case <-first:
		case <-time.After(sizeWait):
		case <-ctx.Done():
		}
	}
	err := s.send(ctx, conn)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// repeat makes a call until it gets an answer, for at most the given time; the session makes repeated calls harmless.
func repeat[R any](ctx context.Context, s *session, most time.Duration, call func(context.Context, wire.Caller) (*R, error)) (*R, error) {
	pauses := retry.Between(retryFirst, retryLast)
	for begun := time.Now(); ; {
		node, _, err := s.call.ToNode(s.node)
		if err == nil {
			var out *R
			bounded, cancel := context.WithTimeout(ctx, pollWait+callTimeout)
			out, err = call(bounded, node)
			cancel()
			if err == nil {
				return out, nil
			}
		}
		if !lost(err) || ctx.Err() != nil || time.Since(begun) > most || !pauses.Wait(ctx) {
			return nil, err
		}
	}
}

// lost reports whether a call may have been served without an answer.
func lost(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.NotLeader) || errors.Is(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded)
}

func (s *session) exchange(ctx context.Context, r api.ExecRequest) (*api.ExecResponse, error) {
	return repeat(ctx, s, retryMax, func(ctx context.Context, node wire.Caller) (*api.ExecResponse, error) {
		own := r
		own.AllocID, own.SessionID, own.QueryOptions = s.opened.AllocID, s.opened.SessionID, only(s.call)
		return s.method.Call(ctx, node, &own)
	})
}

// stop ends the session; when the call is lost, the node ends it because it is idle.
func (s *session) stop() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.call.Context()), stopTimeout)
	defer cancel()
	if node, _, err := s.call.ToNode(s.node); err == nil {
		_, _ = s.method.Call(ctx, node, &api.ExecRequest{
			AllocID: s.opened.AllocID, SessionID: s.opened.SessionID, Stop: true, QueryOptions: only(s.call),
		})
	}
}

// receive passes the messages of the client to the session until the client has left. It calls passed after each.
func (s *session) receive(ctx context.Context, conn *websocket.Conn, passed func()) error {
	var offset int64
	var sizes uint64
	ended := false
	for {
		_, body, err := conn.Read(s.call.Context())
		switch {
		case websocket.CloseStatus(err) == websocket.StatusMessageTooBig:
			return fault.New(fault.TooLarge, "a message has more than %d bytes", messageMax)
		case err != nil:
			return errLeft
		}
		var in api.ExecStreamingInput
		if err := json.Unmarshal(body, &in); err != nil {
			return fault.New(fault.Invalid, "a message is not valid JSON")
		}
		if size := in.TTYSize; size != nil && !ended && size.Width > 0 && size.Height > 0 {
			sizes++
			out, err := s.exchange(ctx, api.ExecRequest{Width: size.Width, Height: size.Height, SizeNumber: sizes, InputOffset: offset})
			if err != nil {
				return err
			}
			ended = out.Exited
		}
		for in := in.Stdin; in != nil && !ended; {
			part := in.Data[:min(len(in.Data), inputMax)]
			last := in.Close && len(part) == len(in.Data)
			if len(part) == 0 && !last {
				break
			}
			out, err := s.exchange(ctx, api.ExecRequest{Input: part, InputOffset: offset, InputEnd: last, Wait: pollWait})
			if err != nil {
				return err
			}
			taken := min(max(0, out.Accepted-offset), int64(len(part)))
			offset += taken
			in.Data = in.Data[taken:]
			if ended = out.Exited; last && len(in.Data) == 0 {
				break
			}
		}
		passed()
	}
}

// send passes the output of the command to the client until the command has ended.
func (s *session) send(ctx context.Context, conn *websocket.Conn) error {
	var received int64
	for {
		out, err := s.exchange(ctx, api.ExecRequest{Received: received, Wait: pollWait})
		if err != nil {
			return err
		}
		if out.Offset > received {
			return fault.New(fault.Internal, "output from %d to %d of the command was lost", received, out.Offset)
		}
		skip := received - out.Offset
		for _, o := range out.Output {
			n := min(skip, int64(len(o.Data)))
			skip -= n
			if o.Data = o.Data[n:]; len(o.Data) == 0 {
				continue
			}
			part := &api.ExecStreamingIO{Data: o.Data}
			frame := api.ExecStreamingOutput{Stdout: part}
			if o.Stderr {
				frame = api.ExecStreamingOutput{Stderr: part}
			}
			if err := s.write(conn, frame); err != nil {
				return err
			}
			received += int64(len(o.Data))
		}
		if out.Exited {
			return s.last(conn, out.ExitCode)
		}
	}
}

// ping makes the kernel notice a client that has disconnected, also while its input waits and nothing is read from it. What it
// finds, the next read or write returns. While the client reads nothing, as one that pages the output does, it keeps the session
// on the node, which ends those without calls.
func (s *session) ping(ctx context.Context, conn *websocket.Conn) {
	for retry.Sleep(ctx, pingEvery) {
		if s.writing.Load() {
			_, _ = s.exchange(ctx, api.ExecRequest{})
		}
		bounded, cancel := context.WithTimeout(s.call.Context(), pingTimeout)
		_ = conn.Ping(bounded)
		cancel()
	}
}

// last sends the last messages: the end of both outputs and the exit code.
func (s *session) last(conn *websocket.Conn, code int) error {
	end := &api.ExecStreamingIO{Close: true}
	for _, frame := range []api.ExecStreamingOutput{{Stdout: end}, {Stderr: end}, {Exited: true, Result: &api.ExecStreamingExit{ExitCode: code}}} {
		if err := s.write(conn, frame); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) write(conn *websocket.Conn, frame api.ExecStreamingOutput) error {
	body, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.call.Context(), s.pause)
	defer cancel()
	s.writing.Store(true)
	defer s.writing.Store(false)
	if err := conn.Write(ctx, websocket.MessageText, body); err != nil {
		return errLeft
	}
	return nil
}
