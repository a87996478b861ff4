package rest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// Allocs lists allocations.
func (c *Client) Allocs(ctx context.Context, q Query) ([]*api.AllocStub, Meta, error) {
	return get[[]*api.AllocStub](ctx, c, q, "allocations")
}

// Alloc reads one allocation with its job.
func (c *Client) Alloc(ctx context.Context, id string, q Query) (*api.Allocation, Meta, error) {
	return get[*api.Allocation](ctx, c, q, "allocation", id)
}

// StopAlloc stops an allocation; the servers place a replacement when its job wants one.
func (c *Client) StopAlloc(ctx context.Context, id string, noShutdownDelay bool) (*api.AllocStopResponse, error) {
	v := url.Values{"no_shutdown_delay": {strconv.FormatBool(noShutdownDelay)}}
	return put[api.AllocStopResponse](ctx, c, v, nil, "allocation", id, "stop")
}

// RestartAlloc restarts a task, or all running ones when task is empty; all includes ended ones.
func (c *Client) RestartAlloc(ctx context.Context, id, task string, all bool) error {
	body := api.AllocRestartRequest{TaskName: task, AllTasks: all}
	_, err := c.do(ctx, http.MethodPut, []string{"client", "allocation", id, "restart"}, nil, body, nil)
	return err
}

// SignalAlloc signals a task, or all running ones when task is empty.
func (c *Client) SignalAlloc(ctx context.Context, id, task, signal string) error {
	body := api.AllocSignalRequest{Task: task, Signal: signal}
	_, err := c.do(ctx, http.MethodPut, []string{"client", "allocation", id, "signal"}, nil, body, nil)
	return err
}

// PauseAlloc pauses or runs a task with a schedule, or gives it back to its schedule: state is pause, run or scheduled.
func (c *Client) PauseAlloc(ctx context.Context, id, task, state string) error {
	body := api.AllocPauseRequest{Task: task, ScheduleState: state}
	_, err := c.do(ctx, http.MethodPut, []string{"client", "allocation", id, "pause"}, nil, body, nil)
	return err
}

// AllocPauseState reads whether a task with a schedule is paused.
func (c *Client) AllocPauseState(ctx context.Context, id, task string) (string, error) {
	out, _, err := get[*api.AllocGetPauseResponse](ctx, c, Query{Params: url.Values{"task": {task}}}, "client", "allocation", id, "pause")
	if err != nil {
		return "", err
	}
	return out.ScheduleState, nil
}

// AllocStats returns the resource usage of an allocation.
func (c *Client) AllocStats(ctx context.Context, id string) (*api.AllocResourceUsage, error) {
	out, _, err := get[*api.AllocResourceUsage](ctx, c, Query{}, "client", "allocation", id, "stats")
	return out, err
}

// AllocChecks returns the last results of the checks of an allocation by their id.
func (c *Client) AllocChecks(ctx context.Context, id string) (map[string]*api.AllocCheckStatus, error) {
	out, _, err := get[map[string]*api.AllocCheckStatus](ctx, c, Query{}, "client", "allocation", id, "checks")
	return out, err
}

// LogOptions select a part of a log.
type LogOptions struct {
	Task string
	// Kind is stdout or stderr.
	Kind   string
	Follow bool
	// Origin is start or end; Offset counts from it in bytes.
	Origin string
	Offset int64
}

// Logs streams a task's log as it was written. The caller closes it.
func (c *Client) Logs(ctx context.Context, alloc string, o LogOptions) (io.ReadCloser, error) {
	v := url.Values{
		"task": {o.Task}, "type": {o.Kind}, "plain": {"true"}, "follow": {strconv.FormatBool(o.Follow)},
		"origin": {o.Origin}, "offset": {strconv.FormatInt(o.Offset, 10)},
	}
	r, err := c.request(ctx, http.MethodGet, []string{"client", "fs", "logs", alloc}, v, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// FilePart selects a part of a file.
type FilePart struct {
	Path   string
	Follow bool
	// Origin is start or end; Offset counts from it in bytes.
	Origin string
	Offset int64
}

// FileStream streams a part of a file; with Follow also what is written to it later, until it is deleted. The caller closes it.
func (c *Client) FileStream(ctx context.Context, alloc string, p FilePart) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, []string{"client", "fs", "stream", alloc}, url.Values{
		"path": {p.Path}, "follow": {strconv.FormatBool(p.Follow)}, "origin": {p.Origin}, "offset": {strconv.FormatInt(p.Offset, 10)},
	}, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return &frames{Closer: resp.Body, from: json.NewDecoder(resp.Body)}, nil
}

// frames reads the data of the frames of a stream.
type frames struct {
	io.Closer
	from *json.Decoder
	data []byte
}

// Read implements [io.Reader].
func (f *frames) Read(into []byte) (int, error) {
	for len(f.data) == 0 {
		var frame api.StreamFrame
		if err := f.from.Decode(&frame); err != nil {
			return 0, err
		}
		f.data = frame.Data
	}
	n := copy(into, f.data)
	f.data = f.data[n:]
	return n, nil
}

// Files lists a folder of an allocation.
func (c *Client) Files(ctx context.Context, alloc, path string) ([]*api.AllocFileInfo, error) {
	out, _, err := get[[]*api.AllocFileInfo](ctx, c, Query{}.with("path", path), "client", "fs", "ls", alloc)
	return out, err
}

// FileInfo describes a file of an allocation.
func (c *Client) FileInfo(ctx context.Context, alloc, path string) (*api.AllocFileInfo, error) {
	out, _, err := get[*api.AllocFileInfo](ctx, c, Query{}.with("path", path), "client", "fs", "stat", alloc)
	return out, err
}

// File copies a file of an allocation.
func (c *Client) File(ctx context.Context, alloc, path string, out io.Writer) error {
	return c.Raw(ctx, http.MethodGet, []string{"client", "fs", "cat", alloc}, url.Values{"path": {path}}, out)
}
