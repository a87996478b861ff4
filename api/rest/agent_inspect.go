package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MonitorOptions select an agent and lines of its log. Without a server and a node it is the contacted agent.
type MonitorOptions struct {
	ServerID, NodeID string
	// Level is the least level of lines, such as debug; empty is info.
	Level                 string
	JSON, IncludeLocation bool
}

// Monitor streams the log of an agent as it is written. The caller closes it.
func (c *Client) Monitor(ctx context.Context, o MonitorOptions) (io.ReadCloser, error) {
	v := url.Values{
		"plain": {"true"}, "log_json": {strconv.FormatBool(o.JSON)}, "log_include_location": {strconv.FormatBool(o.IncludeLocation)},
	}
	for name, value := range map[string]string{"server_id": o.ServerID, "node_id": o.NodeID, "log_level": o.Level} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return c.stream(ctx, []string{"agent", "monitor"}, v)
}

// stream reads text as it is written. A compressed response would begin with its first line.
func (c *Client) stream(ctx context.Context, path []string, v url.Values) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, path, v, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ExportOptions select an agent and its stored log. Without a server and a node it is the contacted agent.
type ExportOptions struct {
	ServerID, NodeID string
	// OnDisk is the log file, ServiceName the journal of a systemd unit; one of them is set.
	OnDisk      bool
	ServiceName string
	// Since is the age of the first line of a journal; 0 is 72 h. Follow continues with new lines.
	Since  time.Duration
	Follow bool
}

// MonitorExport streams the stored log of an agent. The caller closes it.
func (c *Client) MonitorExport(ctx context.Context, o ExportOptions) (io.ReadCloser, error) {
	v := url.Values{"plain": {"true"}, "on_disk": {strconv.FormatBool(o.OnDisk)}, "follow": {strconv.FormatBool(o.Follow)}}
	for name, value := range map[string]string{"server_id": o.ServerID, "node_id": o.NodeID, "service_name": o.ServiceName} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if o.Since > 0 {
		v.Set("logs_since", o.Since.String())
	}
	return c.stream(ctx, []string{"agent", "monitor", "export"}, v)
}
