package client

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/stats"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// Telemetry is how a node is measured.
type Telemetry struct {
	// Metrics records what the node does; nil does not.
	Metrics *metrics.Recorder
	// Node, Allocs and Hooks enable the metrics of the host, of tasks, and of the steps of allocations.
	Node, Allocs, Hooks bool
	// Interval is the time between two measurements of the host and of tasks; 0 means 1 s.
	Interval time.Duration
	// Meta are keys of the meta blocks of jobs, groups and tasks that become labels of the metrics of tasks.
	Meta []string
}

const (
	// measureTimeout limits one measurement: a driver may hang.
	measureTimeout = 2 * time.Second
	// measureWorkers is how many allocations are measured at once.
	measureWorkers = 4
)

// value is a gauge as it was measured last.
type value struct {
	name   string
	value  float64
	labels []metrics.Label
}

// measured are the last measurements of the host and of tasks.
type measured struct {
	mu   sync.Mutex
	host []value
	// tasks are by allocation.
	tasks map[string][]value
}

func label(name, value string) metrics.Label { return metrics.Label{Name: name, Value: value} }

// measure measures the host and the tasks at intervals until ctx ends.
func (c *Client) measure(ctx context.Context) error {
	t := c.conf.Telemetry
	if t.Metrics == nil || !t.Node && !t.Allocs {
		return nil
	}
	interval := t.Interval
	if interval <= 0 {
		interval = time.Second
	}
	host := stats.New(c.conf.AllocDir, c.computeMHz)
	for {
		if t.Node {
			c.measureHost(ctx, host)
		}
		if t.Allocs {
			c.measureTasks(ctx)
		}
		if !retry.Sleep(ctx, interval) {
			return nil
		}
	}
}

// computeMHz is the compute capacity of the node.
func (c *Client) computeMHz() int64 {
	if r := c.node.present().NodeResources; r != nil {
		return r.Cpu.CpuShares
	}
	return 0
}

func (c *Client) nodeLabels() []metrics.Label {
	n := c.node.present()
	status := api.NodeStatusInit
	select {
	case <-c.registered:
		status = api.NodeStatusReady
	default:
	}
	return []metrics.Label{
		label("node_id", n.ID), label("datacenter", n.Datacenter), label("node_class", n.NodeClass), label("node_pool", n.NodePool),
		label("node_status", cmp.Or(n.Status, status)), label("node_scheduling_eligibility", cmp.Or(n.SchedulingEligibility, api.NodeSchedulingEligible)),
	}
}

func (c *Client) measureHost(ctx context.Context, host *stats.Host) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	s, err := host.Read(ctx)
	if err != nil {
		c.log.Debug("the host was not measured", "error", err)
		return
	}
	base := c.nodeLabels()
	var out []value
	add := func(name string, v float64, more ...metrics.Label) {
		out = append(out, value{name, v, append(base[:len(base):len(base)], more...)})
	}
	add("client.uptime", float64(s.Uptime))
	add("client.host.memory.total", float64(s.Memory.Total))
	add("client.host.memory.available", float64(s.Memory.Available))
	add("client.host.memory.used", float64(s.Memory.Used))
	add("client.host.memory.free", float64(s.Memory.Free))
	for _, p := range s.CPU {
		of := label("cpu", p.CPU)
		add("client.host.cpu.total", p.TotalPercent, of)
		add("client.host.cpu.total_percent", p.TotalPercent, of)
		add("client.host.cpu.total_ticks", p.TotalTicks, of)
		add("client.host.cpu.user", p.User, of)
		add("client.host.cpu.system", p.System, of)
		add("client.host.cpu.idle", p.Idle, of)
		c.conf.Telemetry.Metrics.Count("client.host.cpu.total_ticks_count", p.TotalTicks, append(base[:len(base):len(base)], of)...)
	}
	for _, d := range s.DiskStats {
		of := label("disk", d.Device)
		if d.Device == "" {
			of.Value = d.Mountpoint
		}
		add("client.host.disk.size", float64(d.Size), of)
		add("client.host.disk.used", float64(d.Used), of)
		add("client.host.disk.available", float64(d.Available), of)
		add("client.host.disk.used_percent", d.UsedPercent, of)
		add("client.host.disk.inodes_percent", d.InodesUsedPercent, of)
	}
	out = append(out, deviceValues(c.devices.Stats(), base)...)
	c.measured.mu.Lock()
	defer c.measured.mu.Unlock()
	c.measured.host = out
}

func (c *Client) measureTasks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	var workers errgroup.Group
	workers.SetLimit(measureWorkers)
	known := map[string]bool{}
	for _, e := range c.table.all() {
		if e.group == nil || e.alloc.Status() != api.AllocClientStatusRunning {
			continue
		}
		known[e.alloc.ID()] = true
		workers.Go(func() error {
			values := c.taskValues(e.alloc.Present(), e.group.Stats(ctx))
			c.measured.mu.Lock()
			defer c.measured.mu.Unlock()
			if c.measured.tasks == nil {
				c.measured.tasks = map[string][]value{}
			}
			c.measured.tasks[e.alloc.ID()] = values
			return nil
		})
	}
	_ = workers.Wait()
	c.measured.mu.Lock()
	defer c.measured.mu.Unlock()
	for id := range c.measured.tasks {
		if !known[id] {
			delete(c.measured.tasks, id)
		}
	}
}

// taskValues are the metrics of the tasks of one allocation.
func (c *Client) taskValues(a *api.Allocation, s *api.AllocResourceUsage) (out []value) {
	for task, u := range s.Tasks {
		labels := c.taskLabels(a, task)
		add := func(name string, v float64) { out = append(out, value{name, v, labels}) }
		if u.ResourceUsage == nil {
			continue
		}
		if p := u.ResourceUsage.CpuStats; p != nil {
			add("client.allocs.cpu.total_percent", p.Percent)
			add("client.allocs.cpu.total_ticks", p.TotalTicks)
			add("client.allocs.cpu.user", p.UserMode)
			add("client.allocs.cpu.system", p.SystemMode)
			add("client.allocs.cpu.throttled_time", float64(p.ThrottledTime))
			add("client.allocs.cpu.throttled_periods", float64(p.ThrottledPeriods))
			c.conf.Telemetry.Metrics.Count("client.allocs.cpu.total_ticks_count", p.TotalTicks, labels...)
		}
		if m := u.ResourceUsage.MemoryStats; m != nil {
			for _, kind := range m.Measured {
				switch kind {
				case "RSS":
					add("client.allocs.memory.rss", float64(m.RSS))
				case "Cache":
					add("client.allocs.memory.cache", float64(m.Cache))
				case "Swap":
					add("client.allocs.memory.swap", float64(m.Swap))
				case "Mapped File":
					add("client.allocs.memory.mapped_file", float64(m.MappedFile))
				case "Usage":
					add("client.allocs.memory.usage", float64(m.Usage))
				case "Max Usage":
					add("client.allocs.memory.max_usage", float64(m.MaxUsage))
				case "Kernel Usage":
					add("client.allocs.memory.kernel_usage", float64(m.KernelUsage))
				case "Kernel Max Usage":
					add("client.allocs.memory.kernel_max_usage", float64(m.KernelMaxUsage))
				}
			}
		}
		if a.AllocatedResources == nil {
			continue
		}
		if r := a.AllocatedResources.Tasks[task]; r != nil {
			add("client.allocs.cpu.allocated", float64(r.Cpu.CpuShares))
			add("client.allocs.memory.allocated", float64(r.Memory.MemoryMB<<20))
			if r.Memory.MemoryMaxMB > 0 {
				add("client.allocs.memory.max_allocated", float64(r.Memory.MemoryMaxMB<<20))
			}
		}
	}
	return out
}

// taskLabels are the labels of a task; an empty task is the allocation.
func (c *Client) taskLabels(a *api.Allocation, task string) []metrics.Label {
	job, kind, child := api.SplitChildID(a.JobID)
	out := []metrics.Label{label("job", job), label("task_group", a.TaskGroup), label("alloc_id", a.ID), label("namespace", a.Namespace)}
	if task != "" {
		out = append(out, label("task", task))
	}
	if child != "" {
		out = append(out, label(kind+"_id", child))
	}
	for _, key := range c.conf.Telemetry.Meta {
		if v, ok := metaOf(a, task, key); ok {
			out = append(out, label(key, v))
		}
	}
	return out
}

// metaOf is a key of the meta blocks of a task, its group or its job: the innermost counts.
func metaOf(a *api.Allocation, task, key string) (v string, ok bool) {
	g := a.Group()
	if g != nil {
		for _, t := range g.Tasks {
			if t.Name == task {
				v, ok = t.Meta[key]
			}
		}
		if !ok {
			v, ok = g.Meta[key]
		}
	}
	if !ok && a.Job != nil {
		v, ok = a.Job.Meta[key]
	}
	return v, ok
}

// Gauges reports the present values of this node.
func (c *Client) Gauges(emit metrics.Emit) {
	c.measured.mu.Lock()
	values := append([]value{}, c.measured.host...)
	for _, v := range c.measured.tasks {
		values = append(values, v...)
	}
	c.measured.mu.Unlock()
	for _, v := range values {
		emit(v.name, v.value, v.labels...)
	}
	if c.conf.Telemetry.Allocs {
		c.runtimeGauges(emit)
	}
	if !c.conf.Telemetry.Node {
		return
	}
	base := c.nodeLabels()
	c.allocGauges(emit, base)
	all, failed, unresponsive := c.volumes.MountCounts()
	for state, n := range map[string]int{"published": all - failed - unresponsive, "failed": failed, "unresponsive": unresponsive} {
		emit("client.volumes.mounts", float64(n), append(base[:len(base):len(base)], label("health", state))...)
	}
}

// runtimeGauges reports the limits of the run time of allocations.
func (c *Client) runtimeGauges(emit metrics.Emit) {
	for _, e := range c.table.all() {
		a := e.alloc.Present()
		g := a.Group()
		if g == nil || g.MaxRunDuration <= 0 || e.alloc.Status() != api.AllocClientStatusRunning {
			continue
		}
		labels := c.taskLabels(a, "")
		emit("client.allocs.max_run_duration.configured_seconds", g.MaxRunDuration.Seconds(), labels...)
		emit("client.allocs.max_run_duration.remaining_seconds", e.alloc.RunTimeLeft().Seconds(), labels...)
	}
}

// allocGauges reports the allocations and tasks by state, and what they take of the node.
func (c *Client) allocGauges(emit metrics.Emit, base []metrics.Label) {
	var pending, running, terminal, blocked, migrating int
	var tasksPending, tasksRunning, tasksDead int
	var cpu, memory, memoryMax, disk, network int64
	for _, e := range c.table.all() {
		a := e.alloc.Present()
		switch status := e.alloc.Status(); {
		case status == api.AllocClientStatusComplete || status == api.AllocClientStatusFailed:
			terminal++
		case status == api.AllocClientStatusRunning:
			running++
		case c.table.waitsForOther(a):
			if g := a.Group(); g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Migrate {
				migrating++
			} else {
				blocked++
			}
		default:
			pending++
		}
		for _, s := range e.alloc.Tasks().States() {
			switch s.State {
			case api.TaskStateRunning:
				tasksRunning++
			case api.TaskStateDead:
				tasksDead++
			default:
				tasksPending++
			}
		}
		select {
		case <-e.alloc.Ended():
			continue
		default:
		}
		if r := a.AllocatedResources; r != nil {
			disk += r.Shared.DiskMB
			for _, n := range r.Shared.Networks {
				network += int64(n.MBits)
			}
			for _, t := range r.Tasks {
				cpu, memory = cpu+t.Cpu.CpuShares, memory+t.Memory.MemoryMB
				memoryMax += max(t.Memory.MemoryMB, t.Memory.MemoryMaxMB)
			}
		}
	}
	add := func(name string, n int64) { emit(name, float64(n), base...) }
	add("client.allocations.pending", int64(pending))
	add("client.allocations.running", int64(running))
	add("client.allocations.terminal", int64(terminal))
	add("client.allocations.blocked", int64(blocked))
	add("client.allocations.migrating", int64(migrating))
	add("client.tasks.pending", int64(tasksPending))
	add("client.tasks.running", int64(tasksRunning))
	add("client.tasks.dead", int64(tasksDead))
	add("client.allocated.cpu", cpu)
	add("client.allocated.memory", memory)
	add("client.allocated.max_memory", memoryMax)
	add("client.allocated.disk", disk)
	add("client.allocated.network", network)
	n := c.node.present()
	if n.NodeResources == nil {
		return
	}
	var total int64
	for _, one := range n.NodeResources.Networks {
		total += int64(one.MBits)
	}
	reserved := c.conf.Reserved
	add("client.unallocated.cpu", n.NodeResources.Cpu.CpuShares-int64(reserved.Cpu.CpuShares)-cpu)
	add("client.unallocated.memory", n.NodeResources.Memory.MemoryMB-int64(reserved.Memory.MemoryMB)-memory)
	add("client.unallocated.disk", n.NodeResources.Disk.DiskMB-int64(reserved.Disk.DiskMB)-disk)
	add("client.unallocated.network", total-network)
}

// stepDone records a step of the start of an allocation.
func (c *Client) stepDone(step string, took time.Duration, err error) {
	t := c.conf.Telemetry
	if !t.Hooks || t.Metrics == nil {
		return
	}
	name := "client.alloc_hook." + step
	t.Metrics.Sample(name+".elapsed", float64(took.Microseconds())/1000)
	if err != nil {
		t.Metrics.Count(name+".failed", 1)
	} else {
		t.Metrics.Count(name+".success", 1)
	}
}

// happened counts events of tasks.
func (c *Client) happened(a *api.Allocation, task string, e *api.TaskEvent) {
	t := c.conf.Telemetry
	if !t.Allocs || t.Metrics == nil {
		return
	}
	switch {
	case e.Type == api.EventRestarting:
		t.Metrics.Count("client.allocs.restart", 1, c.taskLabels(a, task)...)
	case e.Type == api.EventTerminated && e.Details["oom_killed"] == "true":
		t.Metrics.Count("client.allocs.oom_killed", 1, c.taskLabels(a, task)...)
	}
}

// reported counts a new status of an allocation.
func (c *Client) reported(e *entry, status string) {
	t := c.conf.Telemetry
	if !t.Allocs || t.Metrics == nil {
		return
	}
	switch status {
	case api.AllocClientStatusRunning:
		t.Metrics.Count("client.allocs.running", 1, c.taskLabels(e.alloc.Present(), "")...)
	case api.AllocClientStatusComplete:
		t.Metrics.Count("client.allocs.complete", 1, c.taskLabels(e.alloc.Present(), "")...)
	case api.AllocClientStatusFailed:
		t.Metrics.Count("client.allocs.failed", 1, c.taskLabels(e.alloc.Present(), "")...)
	}
}

// callNames are the metrics of methods where they are not those of [callName].
var callNames = map[string]string{
	"ClientAlloc.GC": "client.allocations.garbage_collect", "ClientNode.GC": "client.allocations.garbage_collect_all",
	"ClientAlloc.Pause": "client.allocations.pause_set", "ClientAlloc.PauseState": "client.allocations.pause_get",
	"ClientAlloc.Restart": "client.allocations.restart", "ClientAlloc.Signal": "client.allocations.signal",
	"ClientAlloc.Stats": "client.allocations.stats", "ClientAlloc.Checks": "client.allocations.checks", "ClientAlloc.ExecOpen": "client.allocations.exec",
	"ClientAlloc.FileList": "client.file_system.list", "ClientAlloc.FileStat": "client.file_system.stat",
	"ClientAlloc.FileRead": "client.file_system.stream", "ClientAlloc.Logs": "client.file_system.logs", "ClientNode.Stats": "client.client_stats.stats",
	"NodeMeta.Read": "client.node_meta.read", "NodeMeta.Apply": "client.node_meta.apply", "ClientAgent.Monitor": "client.agent.monitor",
	"Controller.Publish": "client.csi_controller.publish_volume", "Controller.Unpublish": "client.csi_controller.unpublish_volume",
	"Controller.Validate": "client.csi_controller.validate_volume", "Controller.Create": "client.csi_controller.create_volume",
	"Controller.Delete": "client.csi_controller.delete_volume", "Controller.Expand": "client.csi_controller.expand_volume",
	"Controller.List": "client.csi_controller.list_volumes", "Controller.Snapshot": "client.csi_controller.create_snapshot",
	"Controller.SnapshotDelete": "client.csi_controller.delete_snapshot", "Controller.SnapshotList": "client.csi_controller.list_snapshots",
	"NodeHostVolume.Create": "client.host_volume.create", "NodeHostVolume.Delete": "client.host_volume.delete",
	"NodeVolume.Expand": "client.csi_node.expand_volume", "NodeVolume.Detach": "client.csi_node.detach_volume",
}

// callName is the metric with the duration of the calls of a method.
func callName(method string) string {
	if name, ok := callNames[method]; ok {
		return name
	}
	service, op, _ := strings.Cut(method, ".")
	return "client." + metrics.Snake(service) + "." + metrics.Snake(op)
}

// counted adds the metrics of calls to handlers.
func counted(to *metrics.Recorder, handlers []wire.Handler) []wire.Handler {
	if to == nil {
		return handlers
	}
	for i, h := range handlers {
		serve, name := h.Serve, callName(h.Name)
		handlers[i].Serve = func(ctx context.Context, req any) (any, error) {
			to.Count("client.rpc.request", 1)
			start := time.Now()
			resp, err := serve(ctx, req)
			to.Since(name, start)
			if err != nil {
				to.Count("client.rpc.request_error", 1)
			}
			return resp, err
		}
	}
	return handlers
}
