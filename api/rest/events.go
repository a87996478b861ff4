package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Events calls each with the events of one raft index after the other, until it fails, ctx ends or the server ends the
// stream. Topics are texts like "Job" or "Job:example"; none means all topics. Heartbeats are left out.
func (c *Client) Events(ctx context.Context, topics []string, q Query, each func(*api.Events) error) error {
	q.Params = url.Values{"topic": topics}
	r, err := c.request(ctx, http.MethodGet, []string{"event", "stream"}, q.values(), nil)
	if err != nil {
		return err
	}
	resp, err := c.send(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); ; {
		var line api.Events
		err := d.Decode(&line)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return fault.New(fault.Unavailable, "the server ended the event stream")
		case err != nil:
			return fault.New(fault.Unavailable, "the event stream broke off: %w", err)
		case line.Error != "":
			return fault.New(fault.Unavailable, "the server ended the event stream: %s", line.Error)
		case len(line.Events) == 0:
			continue
		}
		if err := each(&line); err != nil {
			return err
		}
	}
}
