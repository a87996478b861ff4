package docker

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/spec"
)

// Labels of networks of allocations.
const (
	// labelJoin is set on containers that are there for that of a task, labelJoined has the id of such a one.
	labelJoin   = "open-nomad.join"
	labelJoined = "open-nomad.joined"
)

const (
	// joinMax bounds the wait for a new process to enter a namespace, joinPoll is the time between two looks.
	joinMax  = 30 * time.Second
	joinPoll = 2 * time.Millisecond
)

func (d *Driver) joinLabels(task string) map[string]string {
	return map[string]string{labelTask: task, labelAgent: d.config.StateDir, labelJoin: "true"}
}

// joinNetwork starts the container through which that of the task joins the network of its allocation, and sets the task's to join
// it. Only the start needs it, but an engine measures no container whose joined one does not run.
func (d *Driver) joinNetwork(ctx context.Context, t *driver.Task, s *spec.Spec) error {
	if s.Joiner == nil {
		return nil
	}
	id, err := d.createJoiner(ctx, t, s)
	if err == nil {
		err = d.startContainer(ctx, id)
	}
	if err == nil {
		err = d.waitJoined(ctx, t, id)
	}
	if err != nil {
		return fmt.Errorf("join the network of the allocation: %w", err)
	}
	s.Options.HostConfig.NetworkMode = container.NetworkMode("container:" + id)
	s.Options.Config.Labels[labelJoined] = id
	return nil
}

// createJoiner creates the container; one with its name is left from a start that was cut off.
func (d *Driver) createJoiner(ctx context.Context, t *driver.Task, s *spec.Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, workMax)
	defer cancel()
	d.removeJoiners(ctx, t.ID)
	reply, err := d.engine.ContainerCreate(ctx, *s.Joiner)
	return reply.ID, engine.Error(fmt.Sprintf("create container %q", s.Joiner.Name), err)
}

// removeJoiners removes what starts of the task have left.
func (d *Driver) removeJoiners(ctx context.Context, task string) {
	list, err := d.list(ctx, labelTask+"="+task)
	for _, c := range list {
		if c.Labels[labelJoin] != "" && err == nil {
			err = d.remove(ctx, c.ID)
		}
	}
	if err != nil {
		d.log.Warn("remove what an earlier start has left", "task", task, "error", err)
	}
}

// waitJoined waits until the first process of the container is in the namespace of the allocation.
func (d *Driver) waitJoined(ctx context.Context, t *driver.Task, id string) error {
	ctx, cancel := context.WithTimeout(ctx, joinMax)
	defer cancel()
	want, err := os.Stat(t.Network)
	if err != nil {
		return fmt.Errorf("the network namespace of the allocation: %w", err)
	}
	c, err := d.look(ctx, id)
	if err != nil {
		return err
	}
	for {
		is, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", c.State.Pid))
		if err == nil && os.SameFile(is, want) {
			return nil
		}
		if err != nil || c.State.Pid <= 0 {
			return fault.New(fault.Unavailable, "container %.12s has not entered it: %s", id, d.lastWords(ctx, id))
		}
		if !pause(ctx, joinPoll) {
			return fault.New(fault.Unavailable, "container %.12s has not entered it: %w", id, ctx.Err())
		}
	}
}

// lastWords is what a container has written, for an error.
func (d *Driver) lastWords(ctx context.Context, id string) string {
	out, err := d.engine.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStderr: true, Tail: "1"})
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	b := make([]byte, 512)
	n, _ := out.Read(b)
	if n <= 8 { // the header of a piece of output
		return "it has ended"
	}
	return string(b[8:n])
}
