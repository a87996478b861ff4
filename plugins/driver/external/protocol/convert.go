package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

// stateMax bounds the state in a handle in bytes.
const stateMax = 64 << 10

// FromTask makes the message of a task with its config as JSON.
func FromTask(t *driver.Task, config []byte) *Task {
	out := &Task{
		Id: t.ID, AllocId: t.AllocID, Name: t.Name, JobId: t.JobID, JobName: t.JobName, TaskGroup: t.TaskGroup, Namespace: t.Namespace,
		NodeId: t.NodeID, NodeName: t.NodeName, Config: config, Env: t.Env, User: t.User, Dir: t.Dir, AllocDir: t.AllocDir, SecretsDir: t.SecretsDir,
		Logs: &Logs{Dir: t.Logs.Dir, MaxFiles: int64(t.Logs.MaxFiles), MaxFileSizeMb: int64(t.Logs.MaxFileSizeMB), Disabled: t.Logs.Disabled},
		Resources: &Resources{
			CpuShares: t.Resources.CPUShares, NodeCpuShares: t.Resources.NodeCPUShares, Cores: t.Resources.Cores, MemoryMb: t.Resources.MemoryMB,
			MemoryMaxMb: t.Resources.MemoryMaxMB,
		},
		NetworkMode: t.NetworkMode,
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, &Mount{Source: m.Source, Destination: m.Destination, ReadOnly: m.ReadOnly, Propagation: m.Propagation, SubPath: m.SubPath})
	}
	for _, d := range t.Devices {
		out.Devices = append(out.Devices, &Device{HostPath: d.HostPath, TaskPath: d.TaskPath, Permissions: d.Permissions})
	}
	for _, p := range t.Ports {
		out.Ports = append(out.Ports, &Port{Label: p.Label, HostIp: p.HostIP, Value: int64(p.Value), To: int64(p.To)})
	}
	return out
}

// ToTask reads the message of a task.
func ToTask(t *Task) (*driver.Task, error) {
	out := &driver.Task{
		ID: t.GetId(), AllocID: t.GetAllocId(), Name: t.GetName(), JobID: t.GetJobId(), JobName: t.GetJobName(), TaskGroup: t.GetTaskGroup(),
		Namespace: t.GetNamespace(), NodeID: t.GetNodeId(), NodeName: t.GetNodeName(), Env: t.GetEnv(), User: t.GetUser(), Dir: t.GetDir(),
		AllocDir: t.GetAllocDir(), SecretsDir: t.GetSecretsDir(), NetworkMode: t.GetNetworkMode(),
	}
	l, r := t.GetLogs(), t.GetResources()
	out.Logs = driver.Logs{Dir: l.GetDir(), MaxFiles: int(l.GetMaxFiles()), MaxFileSizeMB: int(l.GetMaxFileSizeMb()), Disabled: l.GetDisabled()}
	out.Resources = driver.Resources{
		CPUShares: r.GetCpuShares(), NodeCPUShares: r.GetNodeCpuShares(), Cores: r.GetCores(), MemoryMB: r.GetMemoryMb(), MemoryMaxMB: r.GetMemoryMaxMb(),
	}
	for _, m := range t.GetMounts() {
		out.Mounts = append(out.Mounts, driver.Mount{
			Source: m.GetSource(), Destination: m.GetDestination(), ReadOnly: m.GetReadOnly(), Propagation: m.GetPropagation(), SubPath: m.GetSubPath(),
		})
	}
	for _, d := range t.GetDevices() {
		out.Devices = append(out.Devices, driver.Device{HostPath: d.GetHostPath(), TaskPath: d.GetTaskPath(), Permissions: d.GetPermissions()})
	}
	for _, p := range t.GetPorts() {
		out.Ports = append(out.Ports, driver.Port{Label: p.GetLabel(), HostIP: p.GetHostIp(), Value: int(p.GetValue()), To: int(p.GetTo())})
	}
	var err error
	out.Config, err = schema.Config(t.GetConfig())
	return out, err
}

// FromHandle makes the message of a handle.
func FromHandle(h *driver.Handle) *Handle {
	return &Handle{TaskId: h.TaskID, Version: int64(h.Version), StartedAt: nanoseconds(h.StartedAt), State: h.State}
}

// ToHandle reads the handle of a task of the driver with the name. It refuses a state that is not JSON, or too large.
func ToHandle(name string, h *Handle) (*driver.Handle, error) {
	state := h.GetState()
	if len(state) > stateMax || len(state) > 0 && !json.Valid(state) {
		return nil, fmt.Errorf("task %s: the state in its handle is not JSON of at most %d bytes", h.GetTaskId(), stateMax)
	}
	out := &driver.Handle{Driver: name, TaskID: h.GetTaskId(), Version: int(h.GetVersion()), StartedAt: timeOf(h.GetStartedAt())}
	if len(state) > 0 {
		out.State = state
	}
	return out, nil
}

// FromExit makes the message of an exit; nil stays nil.
func FromExit(e *driver.Exit) *Exit {
	if e == nil {
		return nil
	}
	return &Exit{Code: int64(e.Code), Signal: int64(e.Signal), OomKilled: e.OOMKilled, Error: e.Err}
}

// ToExit reads the message of an exit.
func ToExit(e *Exit) *driver.Exit {
	return &driver.Exit{Code: int(e.GetCode()), Signal: int(e.GetSignal()), OOMKilled: e.GetOomKilled(), Err: e.GetError()}
}

// FromStatusOf makes the message of the state of a task.
func FromStatusOf(s *driver.Status) *InspectTaskResponse {
	return &InspectTaskResponse{
		State: string(s.State), StartedAt: nanoseconds(s.StartedAt), FinishedAt: nanoseconds(s.FinishedAt), Exit: FromExit(s.Exit), Attributes: s.Attributes,
	}
}

// ToStatusOf reads the state of a task.
func ToStatusOf(id string, s *InspectTaskResponse) *driver.Status {
	out := &driver.Status{
		ID: id, State: driver.StateRunning, StartedAt: timeOf(s.GetStartedAt()), FinishedAt: timeOf(s.GetFinishedAt()), Attributes: s.GetAttributes(),
	}
	if s.GetState() == string(driver.StateExited) {
		out.State, out.Exit = driver.StateExited, ToExit(s.GetExit())
	}
	return out
}

// FromUsage makes the message of the use of resources.
func FromUsage(u *api.TaskResourceUsage) *TaskStatsResponse {
	out := &TaskStatsResponse{Timestamp: u.Timestamp}
	if r := u.ResourceUsage; r != nil {
		if r.CpuStats != nil {
			out.CpuUserPercent, out.CpuSystemPercent = r.CpuStats.UserMode, r.CpuStats.SystemMode
		}
		if r.MemoryStats != nil {
			out.MemoryBytes = max(r.MemoryStats.RSS, r.MemoryStats.Usage)
		}
	}
	for pid := range u.Pids {
		var n int64
		if _, err := fmt.Sscan(pid, &n); err == nil {
			out.Pids = append(out.Pids, n)
		}
	}
	return out
}

// ToUsage reads the use of resources.
func ToUsage(s *TaskStatsResponse) *api.TaskResourceUsage {
	const pidsMax = 4096
	pids := map[string]*api.ResourceUsage{}
	for _, pid := range s.GetPids()[:min(len(s.GetPids()), pidsMax)] {
		pids[fmt.Sprint(pid)] = &api.ResourceUsage{}
	}
	return &api.TaskResourceUsage{Timestamp: s.GetTimestamp(), Pids: pids, ResourceUsage: &api.ResourceUsage{
		MemoryStats: &api.MemoryStats{RSS: s.GetMemoryBytes(), Usage: s.GetMemoryBytes(), Measured: []string{"RSS", "Usage"}},
		CpuStats: &api.CpuStats{
			UserMode: s.GetCpuUserPercent(), SystemMode: s.GetCpuSystemPercent(), Percent: s.GetCpuUserPercent() + s.GetCpuSystemPercent(),
			Measured: []string{"System Mode", "User Mode", "Percent"},
		},
	}}
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
