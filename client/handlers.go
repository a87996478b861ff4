package client

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/logs"
)

// Handlers are the methods that servers call on this node; [New] gives them to Config.Servers.
func (c *Client) Handlers() []wire.Handler {
	return append(append(c.volumes.Handlers(), c.hostVolumes.Handlers()...),
		wire.ClientAllocRestart.Handle(c.restartAlloc), wire.ClientAllocSignal.Handle(c.signalAlloc), wire.ClientAllocStats.Handle(c.allocStats),
		wire.ClientAllocChecks.Handle(c.allocChecks), wire.ClientAllocPause.Handle(c.pauseAlloc), wire.ClientAllocPauseState.Handle(c.pauseState),
		wire.ClientAllocLogs.Handle(c.allocLogs), wire.ClientAllocFileList.Handle(c.fileList), wire.ClientAllocFileStat.Handle(c.fileStat),
		wire.ClientAllocFileRead.Handle(c.fileRead), wire.ClientAllocGC.Handle(c.collectAlloc), wire.ClientAllocDiskData.Handle(c.diskData),
		wire.ClientAllocExecOpen.Handle(c.execOpen), wire.ClientAllocExec.Handle(c.exec), wire.ClientAllocNodeExec.Handle(c.nodeExec),
		wire.ClientNodeStats.Handle(c.nodeStats), wire.ClientNodeMeta.Handle(c.readMeta), wire.ClientNodeMetaApply.Handle(c.applyMeta),
		wire.ClientNodeGC.Handle(c.collectNode),
		wire.ClientAgentMonitor.Handle(c.conf.Inspect.Monitor), wire.ClientAgentProfile.Handle(c.conf.Inspect.Profile),
		wire.ClientAgentHost.Handle(func(ctx context.Context, _ *api.AgentHostRequest) (*api.HostDataResponse, error) {
			return c.conf.Inspect.Host(ctx)
		}),
		wire.ClientNodeIdentity.Handle(c.nodeIdentity), wire.ClientNodeIdentityRenew.Handle(c.renewNodeIdentity),
	)
}

// working finds an allocation whose tasks can be asked for something.
func (c *Client) working(id string) (*entry, error) {
	e, err := c.find(id)
	if err != nil {
		return nil, err
	}
	if e.group == nil {
		return nil, fault.New(fault.Conflict, "allocation %s has no tasks", id)
	}
	return e, nil
}

func (c *Client) restartAlloc(ctx context.Context, r *api.AllocRestartRequest) (*api.Empty, error) {
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	return &api.Empty{}, e.group.Restart(ctx, r.TaskName, r.AllTasks)
}

func (c *Client) signalAlloc(ctx context.Context, r *api.AllocSignalRequest) (*api.Empty, error) {
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	return &api.Empty{}, e.group.Signal(ctx, r.Task, r.Signal)
}

func (c *Client) pauseAlloc(_ context.Context, r *api.AllocPauseRequest) (*api.Empty, error) {
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	return &api.Empty{}, e.group.Pause(r.Task, r.ScheduleState)
}

func (c *Client) pauseState(_ context.Context, r *api.AllocPauseStateRequest) (*api.AllocGetPauseResponse, error) {
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	state, err := e.group.PauseState(r.Task)
	return &api.AllocGetPauseResponse{ScheduleState: state}, err
}

func (c *Client) allocStats(ctx context.Context, r *api.AllocRequest) (*api.AllocStatsResponse, error) {
	e, err := c.working(r.AllocID)
	if err != nil {
		return nil, err
	}
	used := e.group.Stats(ctx)
	addDeviceUsage(c.devices, e.alloc.Present(), used)
	return &api.AllocStatsResponse{Stats: used}, nil
}

func (c *Client) allocChecks(_ context.Context, r *api.AllocRequest) (*api.AllocChecksResponse, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	return &api.AllocChecksResponse{Checks: e.alloc.Checks()}, nil
}

func (c *Client) allocLogs(ctx context.Context, r *api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	task := e.alloc.Report().TaskStates[r.Task]
	if task == nil {
		return nil, fault.New(fault.NotFound, "task %q is not part of allocation %s", r.Task, r.AllocID)
	}
	p, err := logs.Read(ctx, logs.Request{
		Open: e.alloc.Dir().OpenLogs, Task: r.Task, Kind: r.Kind, Origin: r.Origin, Offset: r.Offset,
		Cursor: r.Cursor, Limit: r.Limit, Wait: r.Wait, Done: e.alloc.Ended(),
	})
	if errors.Is(err, fault.NotFound) && task.StartedAt.IsZero() {
		return nil, fault.New(fault.NotFound, "task %q not started yet. No logs available", r.Task)
	}
	if err != nil {
		return nil, err
	}
	return &api.AllocLogsResponse{Data: p.Data, File: p.File, Cursor: p.Cursor, End: p.End, Ended: task.State == api.TaskStateDead}, nil
}

func (c *Client) fileList(_ context.Context, r *api.AllocFileRequest) (*api.AllocFileListResponse, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	files, err := e.alloc.Dir().List(r.Path)
	return &api.AllocFileListResponse{Files: files}, err
}

func (c *Client) fileStat(_ context.Context, r *api.AllocFileRequest) (*api.AllocFileStatResponse, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	info, err := e.alloc.Dir().Stat(r.Path)
	return &api.AllocFileStatResponse{Info: info}, err
}

func (c *Client) fileRead(_ context.Context, r *api.AllocFileRequest) (*api.AllocFileReadResponse, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	data, eof, err := e.alloc.Dir().Read(r.Path, r.Offset, r.Limit)
	return &api.AllocFileReadResponse{Data: data, EOF: eof}, err
}

func (c *Client) diskData(ctx context.Context, r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
	e, err := c.find(r.From)
	if err != nil {
		return nil, err
	}
	return e.alloc.DiskData(ctx, r)
}

// downWait is how long the collection of an ended allocation waits until what it used is given back.
const downWait = 5 * time.Second

func (c *Client) collectAlloc(ctx context.Context, r *api.AllocRequest) (*api.Empty, error) {
	e, err := c.find(r.AllocID)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.alloc.Ended():
	default:
		return nil, fault.New(fault.Conflict, "allocation %s has not ended", r.AllocID)
	}
	if e.alloc.Awaited() {
		return nil, fault.New(fault.Conflict, "allocation %s has data that is being copied to another node: try again in a minute", r.AllocID)
	}
	// The allocation is shown as complete a moment before everything that it used is given back.
	limit := time.NewTimer(downWait)
	defer limit.Stop()
	select {
	case <-e.alloc.Down():
		return &api.Empty{}, c.destroy(ctx, e)
	case <-limit.C:
	case <-ctx.Done():
	}
	return nil, fault.New(fault.Conflict, "allocation %s has ended, and what it used is not given back yet: `nomad alloc status` shows what it waits for", r.AllocID)
}

func (c *Client) nodeStats(ctx context.Context, _ *api.NodeRequest) (*api.NodeStatsResponse, error) {
	s, err := c.stats.Read(ctx)
	if s != nil {
		s.DeviceStats = c.devices.Stats()
	}
	return &api.NodeStatsResponse{Stats: s}, err
}

func (c *Client) collectNode(ctx context.Context, _ *api.NodeRequest) (*api.Empty, error) {
	return &api.Empty{}, c.CollectAll(ctx)
}
