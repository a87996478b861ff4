package kit

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
)

func ptr[T any](v T) *T { return &v }

// PluginJob is the embedded driver as a system job.
func (a *Agent) PluginJob(id string, args ...string) *api.Job {
	task := &api.Task{
		Name: "driver", Driver: "raw_exec",
		Config: map[string]any{
			"command": a.Binary,
			"args":    append([]string{"csi-hostpath", "-state-dir", a.Dir + "/" + id, "-node-id", "node-1"}, args...),
		},
		CSIPluginConfig: &api.TaskCSIPluginConfig{ID: id, Type: api.CSIPluginTypeMonolith},
		Resources:       &api.Resources{CPU: ptr(20), MemoryMB: ptr(32)},
		RestartPolicy:   &api.RestartPolicy{Attempts: ptr(100), Interval: ptr(time.Minute), Delay: ptr(200 * time.Millisecond), Mode: ptr("delay")},
	}
	return &api.Job{ID: ptr(id), Name: ptr(id), Type: ptr("system"), TaskGroups: []*api.TaskGroup{{Name: ptr("plugin"), Tasks: []*api.Task{task}}}}
}

// ShellJob runs a shell script as a service.
func ShellJob(id, script string) *api.Job {
	task := &api.Task{
		Name: "main", Driver: "raw_exec",
		Config:    map[string]any{"command": "/bin/sh", "args": []string{"-c", script}},
		Resources: &api.Resources{CPU: ptr(1), MemoryMB: ptr(10)},
	}
	return &api.Job{ID: ptr(id), Name: ptr(id), Type: ptr("service"), TaskGroups: []*api.TaskGroup{{
		Name: ptr("g"), Count: ptr(1), Tasks: []*api.Task{task},
		EphemeralDisk: &api.EphemeralDisk{SizeMB: ptr(10)},
		RestartPolicy: &api.RestartPolicy{Attempts: ptr(0), Interval: ptr(time.Minute), Delay: ptr(time.Second), Mode: ptr("fail")},
	}}}
}

// WithVolume lets the job's tasks use a single-writer volume below the directory "data".
func WithVolume(j *api.Job, volume string) *api.Job {
	g := j.TaskGroups[0]
	g.Volumes = map[string]*api.VolumeRequest{"data": {
		Name: "data", Type: "csi", Source: volume, AccessMode: "single-node-writer", AttachmentMode: "file-system",
	}}
	g.Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: ptr("data"), Destination: ptr("data")}}
	return j
}

// Register submits a job.
func (a *Agent) Register(j *api.Job) {
	a.tb.Helper()
	if _, _, err := a.API.Jobs().Register(j, nil); err != nil {
		a.tb.Fatalf("register %s: %v", *j.ID, err)
	}
}

// Stop stops a job.
func (a *Agent) Stop(job string, purge bool) {
	a.tb.Helper()
	if _, _, err := a.API.Jobs().Deregister(job, purge, nil); err != nil {
		a.tb.Fatalf("stop %s: %v", job, err)
	}
}

// StopPlugin stops a plugin's job though volumes still need it.
func (a *Agent) StopPlugin(job string) {
	a.tb.Helper()
	if out, code := a.Run("job", "stop", "-force", "-detach", job); code != 0 {
		a.tb.Fatalf("stop %s: %s", job, out)
	}
}

// Allocs lists a job's allocations with the client status.
func (a *Agent) Allocs(job, status string) []*api.AllocationListStub {
	all, _, err := a.API.Jobs().Allocations(job, true, nil)
	if err != nil {
		return nil
	}
	var found []*api.AllocationListStub
	for _, stub := range all {
		if stub.ClientStatus == status {
			found = append(found, stub)
		}
	}
	return found
}

// Running waits until the job has n running allocations and returns the first.
func (a *Agent) Running(job string, n int) *api.AllocationListStub {
	a.tb.Helper()
	var found []*api.AllocationListStub
	a.Until(30*time.Second, job+" to run", func() error {
		if found = a.Allocs(job, "running"); len(found) != n {
			all, _, _ := a.API.Jobs().Allocations(job, true, nil)
			for _, s := range all {
				for task, state := range s.TaskStates {
					for _, e := range state.Events {
						return fmt.Errorf("%d run; %s %s %s: %s %s", len(found), s.ID, s.ClientStatus, task, e.Type, e.DisplayMessage)
					}
				}
			}
			return fmt.Errorf("%d run", len(found))
		}
		return nil
	})
	return found[0]
}

// Plugin runs the embedded driver and waits until it is healthy.
func (a *Agent) Plugin(id string, args ...string) time.Duration {
	a.tb.Helper()
	a.Register(a.PluginJob(id, args...))
	return a.PluginHealthy(id)
}

// PluginHealthy waits until the plugin has one healthy node.
func (a *Agent) PluginHealthy(id string) time.Duration {
	a.tb.Helper()
	return a.PluginOn(id, 1)
}

// PluginOn waits until the plugin is healthy on n nodes.
func (a *Agent) PluginOn(id string, n int) time.Duration {
	a.tb.Helper()
	return a.Until(30*time.Second, "plugin "+id, func() error {
		p, _, err := a.API.CSIPlugins().Info(id, nil)
		if err != nil {
			return err
		}
		if p.NodesHealthy != n {
			return fmt.Errorf("%d healthy", p.NodesHealthy)
		}
		return nil
	})
}

// CreateVolume creates a single-writer volume.
func (a *Agent) CreateVolume(plugin, id string) {
	a.tb.Helper()
	if _, _, err := a.API.CSIVolumes().Create(SingleWriter(plugin, id), nil); err != nil {
		a.tb.Fatalf("create volume %s: %v", id, err)
	}
}

// SingleWriter describes a small volume that one node may write.
func SingleWriter(plugin, id string) *api.CSIVolume {
	return &api.CSIVolume{
		ID: id, Name: id, Namespace: "default", PluginID: plugin, RequestedCapacityMin: 1 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
	}
}

// Claimed returns how many allocations hold the volume.
func (a *Agent) Claimed(volume string) int {
	a.tb.Helper()
	v, _, err := a.API.CSIVolumes().Info(volume, nil)
	if err != nil {
		a.tb.Fatalf("volume %s: %v", volume, err)
	}
	return len(v.ReadAllocs) + len(v.WriteAllocs)
}

// Free waits until no allocation holds the volume.
func (a *Agent) Free(volume string) time.Duration {
	a.tb.Helper()
	return a.Until(30*time.Second, "volume "+volume+" to be free", func() error {
		if n := a.Claimed(volume); n != 0 {
			status, _ := a.Run("volume", "status", volume)
			return fmt.Errorf("%d claims\n%s", n, status)
		}
		return nil
	})
}
