package client

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/sessions"
)

func (c *Client) execOpen(_ context.Context, r *api.ExecOpenRequest) (*api.ExecOpenResponse, error) {
	if c.conf.DisableRemoteExec {
		return nil, fault.New(fault.Denied, "commands in tasks are disabled on this node: disable_remote_exec is set")
	}
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	cmd, err := e.group.Command(r.Task, r.Command, r.Action)
	if err != nil {
		return nil, err
	}
	err = c.sessions.Open(r.SessionID, sessions.Command{
		AllocID: r.AllocID, Task: r.Task, Args: cmd.Args, Action: r.Action, TTY: r.TTY, OnNode: cmd.OnNode,
		Accessor: r.Accessor, From: r.From, Run: cmd.Run,
		Started: func() { cmd.Started(cmp.Or(r.Accessor, r.From)) },
	})
	if err != nil {
		return nil, err
	}
	return &api.ExecOpenResponse{OnNode: cmd.OnNode}, nil
}

func (c *Client) exec(ctx context.Context, r *api.ExecRequest) (*api.ExecResponse, error) {
	return c.sessions.Exchange(ctx, r, false)
}

func (c *Client) nodeExec(ctx context.Context, r *api.ExecRequest) (*api.ExecResponse, error) {
	return c.sessions.Exchange(ctx, r, true)
}
