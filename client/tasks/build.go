package tasks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// build makes all that the driver needs to start an attempt, and the files that the task finds. The credentials are those that the task
// has been given, also with an error.
func (t *task) build(ctx context.Context, spec *api.Task, d driver.Driver, p Plugin, id string) (job *driver.Task, cred *credentials, err error) {
	a := t.g.present()
	if err := unsupported(spec); err != nil {
		return nil, nil, err
	}
	if err := t.directories(spec); err != nil {
		return nil, nil, err
	}
	if err := t.openSocket(); err != nil {
		return nil, nil, err
	}
	var mounts []driver.Mount
	var extra map[string]string
	if p != nil {
		if mounts, extra, err = p.Prepare(); err != nil {
			return nil, nil, fmt.Errorf("prepare csi plugin: %w", err)
		}
	}
	dir := t.g.conf.Dirs
	of := dir.Task(t.name)
	if cred, err = t.credentials(ctx, spec, of); err != nil {
		return nil, cred, err
	}
	env := t.env(a, spec, d, extra, cred)
	if len(spec.Secrets) > 0 {
		if err := t.fetchSecrets(ctx, spec, env, cred); err != nil {
			return nil, cred, err
		}
		env = t.env(a, spec, d, extra, cred)
	}
	volumes, err := t.volumeMounts(spec, d, env)
	if err != nil {
		return nil, cred, err
	}
	if err := t.files(a, spec, env); err != nil {
		return nil, cred, err
	}
	job = &driver.Task{
		ID: id, AllocID: a.ID, Name: t.name, JobID: a.JobID, JobName: a.Job.Name, TaskGroup: a.TaskGroup, Namespace: a.Namespace, NodeID: a.NodeID,
		Config: env.Config(spec.Config), Env: env.Vars(), User: env.Replace(spec.User),
		Dir: of.Dir(), AllocDir: dir.Shared(), SecretsDir: of.Secrets(),
		Logs: logs(dir.Logs(), spec.LogConfig), Resources: resources(a, t.name), Mounts: append(mounts, volumes...),
	}
	t.describeNetwork(job, a)
	if t.g.conf.Lease != nil && len(volumes) > 0 {
		if job.Lease = t.g.conf.Lease(); job.Lease != nil && t.g.sharesLease() {
			shared := *job.Lease
			shared.Shared = true
			job.Lease = &shared
		}
	}
	if err := env.Unknown(); err != nil {
		return nil, cred, err
	}
	return job, cred, d.ValidateConfig(job.Config)
}

// directories makes the directories of the task.
func (t *task) directories(spec *api.Task) error {
	mb := 0
	if spec.Resources != nil {
		mb = spec.Resources.SecretsMB
	}
	if err := t.g.conf.Dirs.BuildTask(t.name); err != nil {
		return err
	}
	return t.g.conf.Dirs.MountSecrets(t.name, mb)
}

// unsupported returns an error for fields that are parsed but not implemented.
func unsupported(spec *api.Task) error {
	switch {
	case len(spec.Artifacts) > 0:
		return fault.New(fault.Unimplemented, "task %s: artifact blocks are not supported yet", spec.Name)
	case spec.Vault != nil:
		return fault.New(fault.Unimplemented, "task %s: vault blocks are not supported yet", spec.Name)
	case spec.Schedule != nil:
		return fault.New(fault.Unimplemented, "task %s: schedule blocks are not supported yet", spec.Name)
	}
	for _, tm := range spec.Templates {
		left := tm.LeftDelim
		if left == "" {
			left = "{{"
		}
		if tm.EmbeddedTmpl == "" || tm.Envvars || strings.Contains(tm.EmbeddedTmpl, left) {
			return fault.New(fault.Unimplemented, "task %s: template %s: only inline data without functions is supported yet", spec.Name, tm.DestPath)
		}
	}
	return nil
}

func (t *task) env(a *api.Allocation, spec *api.Task, d driver.Driver, extra map[string]string, cred *credentials) *taskenv.Env {
	of := t.g.conf.Dirs.Task(t.name)
	in := taskenv.Input{Alloc: a, Task: spec, Node: t.g.conf.Node(), Region: t.g.conf.Region, Extra: extra, Tokens: cred.Tokens, Secrets: cred.Secrets}
	if d.Capabilities().Isolation == driver.IsolationNone {
		in.Paths = taskenv.Paths{Alloc: t.g.conf.Dirs.Shared(), Task: of.Local(), Secrets: of.Secrets()}
	} else {
		in.Paths = taskenv.Paths{Alloc: "/alloc", Task: "/local", Secrets: "/secrets"}
	}
	if d.Capabilities().Isolation != driver.IsolationImage {
		in.Host = t.g.conf.HostEnv
	}
	return taskenv.New(in)
}

// mounted returns an error when a volume that the task is to have is not mounted any more.
func (t *task) mounted(spec *api.Task) error {
	if len(spec.VolumeMounts) == 0 || t.g.conf.Mounted == nil {
		return nil
	}
	if err := t.g.conf.Mounted(); err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	return nil
}

// volumeMounts turns the task's volume_mount blocks into mounts of what the allocation got.
func (t *task) volumeMounts(spec *api.Task, d driver.Driver, env *taskenv.Env) ([]driver.Mount, error) {
	if len(spec.VolumeMounts) > 0 && !d.Capabilities().Mounts {
		return nil, fault.New(fault.Invalid, "task %s: driver %s cannot mount volumes", t.name, d.Name())
	}
	if err := t.mounted(spec); err != nil {
		return nil, err
	}
	t.g.mu.Lock()
	have := t.g.mounts
	t.g.mu.Unlock()
	out := make([]driver.Mount, 0, len(spec.VolumeMounts))
	for _, vm := range spec.VolumeMounts {
		alias := env.Replace(vm.Volume)
		m, ok := have[alias]
		if !ok {
			return nil, fault.New(fault.Invalid, "task %s: volume %q is not a volume of the group", t.name, alias)
		}
		m.Destination = env.Replace(vm.Destination)
		if m.Destination == "" {
			return nil, fault.New(fault.Invalid, "task %s: mount of volume %q has no destination", t.name, alias)
		}
		m.ReadOnly = m.ReadOnly || vm.ReadOnly
		m.SubPath = env.Replace(vm.SubPath)
		if vm.PropagationMode != "" {
			m.Propagation = vm.PropagationMode
		}
		out = append(out, m)
	}
	return out, nil
}

// files writes the dispatch payload and the templates that are plain text.
func (t *task) files(a *api.Allocation, spec *api.Task, env *taskenv.Env) error {
	files := map[string]textFile{}
	if p := spec.DispatchPayload; p != nil && p.File != "" && len(a.Job.Payload) > 0 {
		payload, err := unpack(a.Job.Payload)
		if err != nil {
			return fault.New(fault.Invalid, "task %s: payload of job %q: %w", t.name, a.Job.ID, err)
		}
		files[path.Join("local", env.Replace(p.File))] = textFile{payload, 0o644}
	}
	for _, tm := range spec.Templates {
		mode, err := strconv.ParseUint(tm.Perms, 8, 9)
		if err != nil && tm.Perms != "" {
			return fault.New(fault.Invalid, "task %s: template %s: permissions %q are not octal", t.name, tm.DestPath, tm.Perms)
		}
		if tm.Perms == "" {
			mode = 0o644
		}
		files[env.Replace(tm.DestPath)] = textFile{[]byte(tm.EmbeddedTmpl), fs.FileMode(mode)}
	}
	if len(files) == 0 {
		return nil
	}
	return writeFiles(t.g.conf.Dirs.Task(t.name).Dir(), files)
}

// payloadMax bounds what a payload may unpack to; servers accept 16 KiB.
const payloadMax = 1 << 20

func unpack(packed []byte) ([]byte, error) {
	if n, err := snappy.DecodedLen(packed); err != nil || n > payloadMax {
		return nil, fault.New(fault.Invalid, "it is not compressed, or larger than %d bytes", payloadMax)
	}
	return snappy.Decode(nil, packed)
}

type textFile struct {
	text []byte
	mode fs.FileMode
}

// writeFiles writes files below dir; a name that leads out of it is refused.
func writeFiles(dir string, files map[string]textFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open directory of task: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		rel := strings.TrimPrefix(strings.TrimPrefix(path.Clean(name), dir), "/")
		if err := root.MkdirAll(path.Dir(rel), 0o777); err != nil {
			errs = append(errs, fmt.Errorf("make directory of %s: %w", name, err))
			continue
		}
		if err := replace(root, rel, f); err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// replace puts a new file in the place of whatever the task has there: opening that might never return.
func replace(root *os.Root, name string, f textFile) error {
	made := path.Join(path.Dir(name), ".made-"+rand.Text())
	file, err := root.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = root.Rename(made, name)
	}
	if err != nil {
		_ = root.Remove(made)
	}
	return err
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
		CPUShares: r.Cpu.CpuShares, Cores: driver.FormatCores(r.Cpu.ReservedCores), MemoryMB: r.Memory.MemoryMB, MemoryMaxMB: r.Memory.MemoryMaxMB,
	}
}
