package tasks

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulist"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// taskDirs makes the directories of the task.
type taskDirs struct{ *task }

func (taskDirs) name() string { return "directories" }

func (s taskDirs) up(_ context.Context, a *attempt) error {
	if err := unsupported(a.spec); err != nil {
		return err
	}
	mb := 0
	if a.spec.Resources != nil {
		mb = a.spec.Resources.SecretsMB
	}
	if err := s.g.conf.Dirs.BuildTask(s.task.name); err != nil {
		return err
	}
	return s.g.conf.Dirs.MountSecrets(s.task.name, mb)
}

// driverTask makes what the driver starts.
type driverTask struct{ *task }

func (driverTask) name() string { return "driver" }

func (s driverTask) up(_ context.Context, a *attempt) error {
	conf, of := s.g.conf, s.g.conf.Dirs.Task(s.task.name)
	job := &driver.Task{
		ID: a.id, AllocID: a.alloc.ID, Name: s.task.name, JobID: a.alloc.JobID, JobName: a.alloc.Job.Name, TaskGroup: a.alloc.TaskGroup,
		Namespace: a.alloc.Namespace, NodeID: a.alloc.NodeID,
		Config: a.env.Config(a.spec.Config), Env: a.env.Vars(), User: a.env.Replace(a.spec.User),
		Dir: of.Dir(), AllocDir: conf.Dirs.Shared(), SecretsDir: of.Secrets(),
		Logs: logs(conf.Dirs.Logs(), a.spec.LogConfig), Resources: resources(a.alloc, s.task.name), Mounts: a.mounts, Devices: a.devices,
	}
	s.describeNetwork(job, a.alloc, a.driver.Capabilities().Isolation)
	if conf.Lease != nil && len(a.spec.VolumeMounts) > 0 {
		if job.Lease = conf.Lease(); job.Lease != nil && s.g.sharesLease() {
			shared := *job.Lease
			shared.Shared = true
			job.Lease = &shared
		}
	}
	if err := a.env.Unknown(); err != nil {
		return err
	}
	if job.Network != "" && !a.driver.Capabilities().Networks {
		return fault.New(fault.Unimplemented, "driver %s runs tasks in the network of the host only, not in one of mode %s", a.spec.Driver, job.NetworkMode)
	}
	a.job = job
	return a.driver.ValidateConfig(job.Config)
}

// unsupported returns an error for fields that are parsed but not implemented.
func unsupported(spec *api.Task) error {
	switch {
	case spec.Vault != nil:
		return fault.New(fault.Unimplemented, "task %s: vault blocks are not supported yet", spec.Name)
	}
	return nil
}

// makeEnv makes the environment of the task from what the steps have so far.
func (t *task) makeEnv(a *attempt) {
	of := t.g.conf.Dirs.Task(t.name)
	in := taskenv.Input{
		Alloc: a.alloc, Task: a.spec, Node: t.g.conf.Node(), Region: t.g.conf.Region, Extra: a.extraEnv, Tokens: a.cred.Tokens, Secrets: a.cred.Secrets,
		Templates: a.templates.variables(),
	}
	isolation := a.driver.Capabilities().Isolation
	if isolation == driver.IsolationNone {
		in.Paths = taskenv.Paths{Alloc: t.g.conf.Dirs.Shared(), Task: of.Local(), Secrets: of.Secrets()}
	} else {
		in.Paths = taskenv.Paths{Alloc: "/alloc", Task: "/local", Secrets: "/secrets"}
	}
	if isolation != driver.IsolationImage {
		in.Host = t.g.conf.HostEnv
	}
	a.env = taskenv.New(in)
}

func logs(dir string, c *api.LogConfig) driver.Logs {
	out := driver.Logs{Dir: dir}
	if c != nil {
		out.MaxFiles, out.MaxFileSizeMB, out.Disabled = c.MaxFiles, c.MaxFileSizeMB, c.Disabled
	}
	return out
}

func resources(a *api.Allocation, task string) driver.Resources {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[task] == nil {
		return driver.Resources{}
	}
	r := a.AllocatedResources.Tasks[task]
	return driver.Resources{
		CPUShares: r.Cpu.CpuShares, Cores: cpulist.Format(r.Cpu.ReservedCores), MemoryMB: r.Memory.MemoryMB, MemoryMaxMB: r.Memory.MemoryMaxMB,
	}
}
