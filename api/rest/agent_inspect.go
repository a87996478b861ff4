package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
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
	r, err := c.request(ctx, http.MethodGet, []string{"agent", "monitor"}, v, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
