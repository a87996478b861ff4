package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of commands in tasks.
var Routes = routes(writeTimeout)

// routes are the endpoints for clients that may pause their reading for so long.
func routes(pause time.Duration) []endpoint.Route {
	return []endpoint.Route{
		{Method: "GET", Pattern: "/v1/client/allocation/:id/exec", Stays: true, Serve: func(c *endpoint.Call) (any, error) { return nil, allocExec(c, pause) }},
		{Method: "GET", Pattern: "/v1/job/:id/action", Stays: true, Serve: func(c *endpoint.Call) (any, error) { return nil, jobAction(c, pause) }},
	}
}

const (
	// messageMax limits a message of the client in bytes.
	messageMax = 1 << 20
	// handshakeTimeout limits the wait for the message with the token.
	handshakeTimeout = 10 * time.Second
	// handshakeVersion is the only version of that message.
	handshakeVersion = 1
	// reasonMax is how many bytes the reason of a closed WebSocket may have.
	reasonMax = 123
	// commandMax limits the command of a request in bytes.
	commandMax = 128 << 10
)

func allocExec(c *endpoint.Call, pause time.Duration) error {
	r := &api.ExecOpenRequest{AllocID: c.ID, Task: c.Params.Get("task")}
	if r.Task == "" {
		return fault.New(fault.Invalid, "must provide task name")
	}
	command := c.Params.Get("command")
	if len(command) > commandMax {
		return fault.New(fault.TooLarge, "the command has more than %d bytes", commandMax)
	}
	if err := json.Unmarshal([]byte(cmp.Or(command, "null")), &r.Command); err != nil || len(r.Command) == 0 || r.Command[0] == "" {
		return fault.New(fault.Invalid, "must provide the command as a JSON list of texts: command=[\"/bin/date\"]")
	}
	return serve(c, r, "", pause)
}

func jobAction(c *endpoint.Call, pause time.Duration) error {
	r := &api.ExecOpenRequest{AllocID: c.Params.Get("allocID"), Task: c.Params.Get("task"), Action: c.Params.Get("action")}
	switch {
	case r.Action == "":
		return fault.New(fault.Invalid, "must provide the name of an action: action")
	case r.AllocID == "":
		return fault.New(fault.Invalid, "must provide the id of an allocation of the job: allocID")
	case r.Task == "":
		return fault.New(fault.Invalid, "must provide task name")
	}
	return serve(c, r, c.ID, pause)
}

// serve runs the command of a request. A job that is not empty is that of the allocation.
func serve(c *endpoint.Call, r *api.ExecOpenRequest, job string, pause time.Duration) error {
	tty, err := c.Bool("tty")
	if err != nil {
		return err
	}
	asks, err := c.Bool("ws_handshake")
	if err != nil {
		return err
	}
	r.TTY, r.From, r.SessionID = tty, c.R.RemoteAddr, uuid.NewString()
	if !strings.EqualFold(c.R.Header.Get("Upgrade"), "websocket") {
		if _, err := locate(c, r.AllocID, job); err != nil {
			return err
		}
		return fault.New(fault.Invalid, "%s is a WebSocket: use `nomad alloc exec`, or send the header Upgrade: websocket", c.R.URL.Path)
	}
	conn, err := websocket.Accept(c.W, c.R, nil)
	if err != nil {
		c.Log.Debug("refused a WebSocket", "path", endpoint.Hidden(c.R, c.R.URL.Path), "error", err)
		return endpoint.ErrStreamed // the response is written
	}
	conn.SetReadLimit(messageMax)
	var work sync.WaitGroup
	defer work.Wait()
	defer func() { _ = conn.CloseNow() }() // ends what reads
	if asks {
		err = handshake(c, conn)
	}
	if err == nil {
		err = run(c, conn, r, job, pause, &work)
	}
	finish(c, conn, err)
	return endpoint.ErrStreamed
}

// run finds the allocation and runs the command. The goroutine in work reads from the client until the connection is closed.
func run(c *endpoint.Call, conn *websocket.Conn, r *api.ExecOpenRequest, job string, pause time.Duration, work *sync.WaitGroup) error {
	a, err := locate(c, r.AllocID, job)
	if err != nil {
		return err
	}
	r.AllocID = a.ID
	s, err := open(c, a.NodeID, r, pause)
	if err != nil {
		return err
	}
	defer s.stop()
	return s.bridge(conn, work)
}

// handshake reads the token of clients that cannot set headers.
func handshake(c *endpoint.Call, conn *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(c.Context(), handshakeTimeout)
	defer cancel()
	_, body, err := conn.Read(ctx)
	if err != nil {
		return fault.New(fault.Invalid, "the handshake did not arrive: %w", err)
	}
	var first api.ExecHandshake
	if err := json.Unmarshal(body, &first); err != nil {
		return fault.New(fault.Invalid, "the handshake is not valid JSON")
	}
	if first.Version != handshakeVersion {
		return fault.New(fault.Invalid, "handshake version %d is not supported: use %d", first.Version, handshakeVersion)
	}
	if header := c.Query.AuthToken; header != "" && first.AuthToken != header {
		return fault.New(fault.Invalid, "the tokens of the handshake and of the header differ")
	}
	c.Query.AuthToken = first.AuthToken
	return nil
}

// locate finds the allocation of a command.
func locate(c *endpoint.Call, id, job string) (*api.Allocation, error) {
	out, err := wire.AllocGet.Call(c.Context(), c.Servers, &api.AllocRequest{AllocID: id, Locate: true, QueryOptions: only(c)})
	if err != nil {
		return nil, err
	}
	a := out.Alloc
	if a == nil {
		return nil, fault.New(fault.NotFound, "Unknown allocation %q", id)
	}
	if job != "" && a.JobID != job {
		return nil, fault.New(fault.Invalid, "allocation %s belongs to job %q, not %q", a.ID, a.JobID, job)
	}
	return a, nil
}

// only are the options of a request that count for a command.
func only(c *endpoint.Call) api.QueryOptions {
	return api.QueryOptions{Region: c.Query.Region, Namespace: c.Query.Namespace, AuthToken: c.Query.AuthToken}
}

// finish closes the WebSocket; the reason is the text of err.
func finish(c *endpoint.Call, conn *websocket.Conn, err error) {
	if err == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
		return
	}
	if errors.Is(err, errLeft) {
		return
	}
	status := websocket.StatusPolicyViolation
	if fault.Of(err).HTTPStatus() == http.StatusInternalServerError {
		status = websocket.StatusInternalError
	}
	text := endpoint.Hidden(c.R, err.Error())
	c.Log.Debug("command in a task failed", "path", endpoint.Hidden(c.R, c.R.URL.Path), "error", text)
	_ = conn.Close(status, shortened(text))
}

// shortened returns a text that fits into the reason of a closed WebSocket.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= reasonMax {
		return text
	}
	text = text[:reasonMax-3]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "..."
}
