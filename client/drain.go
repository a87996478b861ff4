package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/durable"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// DrainOnShutdown configures how a node drains itself before its agent ends.
type DrainOnShutdown struct {
	// Deadline is when what is left is stopped.
	Deadline time.Duration
	// Force stops everything at once.
	Force            bool
	IgnoreSystemJobs bool
}

const (
	// drainMargin is how long the drain waits beyond the deadline for what was stopped then to end.
	drainMargin = time.Minute
	// drainedFile names the drain that this node asked for, so that it is undone when the node is back.
	drainedFile = "drained"
	// drainKey is the drain's metadata that distinguishes it from drains of operators.
	drainKey = "shutdown"
)

// Drain moves everything away from the node and returns when it is empty, or the time for that has passed. It
// is for the end of the agent: the next agent process makes the node eligible again. Without
// [Config.DrainOnShutdown] it does nothing.
func (c *Client) Drain(ctx context.Context) error {
	d := c.conf.DrainOnShutdown
	if d == nil {
		return nil
	}
	spec := &api.DrainSpec{Deadline: d.Deadline, IgnoreSystemJobs: d.IgnoreSystemJobs}
	if d.Force {
		spec.Deadline = -time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, max(0, spec.Deadline)+drainMargin)
	defer cancel()
	n, index, err := c.self(ctx, 0)
	if err != nil || n == nil {
		return errors.Join(fmt.Errorf("drain this node: it is not registered"), err)
	}
	token := uuid.NewString()
	if n.SchedulingEligibility == api.NodeSchedulingEligible {
		if err := durable.WriteFile(filepath.Join(c.conf.StateDir, drainedFile), []byte(token), 0o600); err != nil {
			return err
		}
	}
	if n.DrainStrategy == nil {
		c.log.Info("draining this node before the end", "deadline", d.Deadline, "force", d.Force)
		_, err := wire.NodeDrain.Call(ctx, c.conf.Servers, &api.NodeDrainRequest{
			NodeID: c.id, DrainSpec: spec, WriteRequest: api.WriteRequest{Region: c.conf.Region, SecretID: c.credential()},
			Meta: map[string]string{"message": "the agent is shutting down", drainKey: token},
		})
		if err != nil {
			return fmt.Errorf("drain this node: %w", err)
		}
	}
	for {
		if n, index, err = c.self(ctx, index); err != nil {
			return fmt.Errorf("wait for the drain of this node: %w", err)
		}
		if n == nil || n.DrainStrategy == nil {
			c.log.Info("this node is drained")
			return nil
		}
	}
}

// self reads the node's record at the servers, nil when there is none, once it is newer than index.
func (c *Client) self(ctx context.Context, index uint64) (*api.Node, uint64, error) {
	resp, err := wire.NodeGet.Call(ctx, c.conf.Servers, &api.NodeRequest{
		NodeID: c.id, QueryOptions: api.QueryOptions{Region: c.conf.Region, AuthToken: c.credential(), MinIndex: index, MaxWait: callWait},
	})
	if err != nil {
		return nil, 0, err
	}
	return resp.Node, resp.Index, nil
}

// endDrain makes a node eligible again that an earlier agent process drained at its end.
func (c *Client) endDrain(ctx context.Context) error {
	path := filepath.Join(c.conf.StateDir, drainedFile)
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	select {
	case <-c.registered:
	case <-ctx.Done():
		return nil
	}
	token := strings.TrimSpace(string(body))
	for pauses := retry.Between(retryMin, retryMax); ctx.Err() == nil; {
		if err = c.undo(ctx, token); err == nil {
			return os.Remove(path)
		}
		pause := pauses.Next()
		c.log.Warn("end the drain of the last shutdown", "retry_in", pause, "error", err)
		retry.Sleep(ctx, pause)
	}
	return nil
}

// undo ends the drain of that token; one that an operator began later stays.
func (c *Client) undo(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	n, _, err := c.self(ctx, 0)
	if err != nil || n == nil || n.LastDrain == nil || n.LastDrain.Meta[drainKey] != token {
		return err
	}
	_, err = wire.NodeDrain.Call(ctx, c.conf.Servers, &api.NodeDrainRequest{
		NodeID: c.id, MarkEligible: true, WriteRequest: api.WriteRequest{Region: c.conf.Region, SecretID: c.credential()},
	})
	return err
}
