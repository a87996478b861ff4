package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
)

// Stats measures the task's container: processor use since the last call, or since the start.
func (d *Driver) Stats(ctx context.Context, id string) (*api.TaskResourceUsage, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	if t.ended() {
		return &api.TaskResourceUsage{Timestamp: time.Now().UnixNano(), ResourceUsage: &api.ResourceUsage{MemoryStats: &api.MemoryStats{}, CpuStats: &api.CpuStats{}}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	what := fmt.Sprintf("measure container %.12s", t.container)
	reply, err := d.engine.ContainerStats(ctx, t.container, client.ContainerStatsOptions{})
	if err != nil {
		return nil, engine.Error(what, err)
	}
	defer reply.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(reply.Body).Decode(&s); err != nil {
		return nil, engine.Error(what, err)
	}
	return t.meter.Read(&s, t.started, time.Now()), nil
}
