package tasks

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// step is one part of what an attempt of a task needs. A step may also be a [resumer], an [attendant] or a [downer].
type step interface {
	name() string
	// up makes the part before the driver starts the attempt. It runs for each attempt, and again while the disk of the node
	// accepts no writes.
	up(ctx context.Context, a *attempt) error
}

// resumer is a step that does something for an attempt of an earlier agent process, which the driver has recovered.
type resumer interface {
	resume(ctx context.Context, a *attempt)
}

// attendant is a step that does something while the attempt runs.
type attendant interface {
	// attend returns when ctx ends: the attempt has ended, or the agent ends.
	attend(ctx context.Context, a *attempt)
}

// downer is a step that leaves something behind.
type downer interface {
	// down removes it after the end of the attempt is recorded, also when up failed or never ran. With left, the agent ends and
	// the task keeps running.
	down(a *attempt, left bool)
}

// steps are the parts of an attempt in the order of up; down is called in reverse order.
func (t *task) steps() []step {
	return []step{
		schedule{t},
		taskDirs{t},
		apiSocket{t},
		csiPlugin{t},
		reservedDevices{t},
		signedIdentities{t},
		secretValues{t},
		artifactFiles{t},
		payload{t},
		renderedTemplates{t},
		volumeMounts{t},
		driverTask{t},
	}
}

// attempt is what the steps of one attempt share. Each field names the step that writes it.
type attempt struct {
	spec   *api.Task
	driver driver.Driver
	// id is the driver's id of the attempt.
	id string
	// alloc is the allocation at the start of the attempt.
	alloc *api.Allocation
	steps []step
	// plugin is nil for tasks without csi_plugin; csiPlugin.
	plugin Plugin
	// extraEnv is what plugins add to the environment; csiPlugin and reservedDevices.
	extraEnv map[string]string
	// devices are the device nodes; reservedDevices.
	devices []driver.Device
	// cred are the credentials, also after an error; signedIdentities and secretValues.
	cred *credentials
	// env is the environment of the task so far; signedIdentities, and again each step that adds to it.
	env *taskenv.Env
	// templates are those of the running attempt; nil when it has none. resumed is set when an earlier agent process has started the
	// attempt. Both are renderedTemplates's.
	templates *templateRun
	resumed   bool
	// mounts are those of the plugin, of devices and of volumes; csiPlugin, reservedDevices and volumeMounts.
	mounts []driver.Mount
	// downloading is set when the download has been reported; artifactFiles.
	downloading bool
	// job is what the driver starts; driverTask.
	job *driver.Task
}

// up runs the steps of a new attempt until the first error.
func (a *attempt) up(ctx context.Context, present *api.Allocation) error {
	a.alloc, a.mounts, a.extraEnv, a.devices, a.cred, a.env, a.job = present, nil, nil, nil, nil, nil, nil
	for _, s := range a.steps {
		within, span := tracing.Start(ctx, "task step ", s.name())
		err := s.up(within, a)
		span.End(a.cred.hide(err))
		if err != nil {
			return err
		}
	}
	return nil
}

// resume runs the steps for an attempt of an earlier agent process.
func (a *attempt) resume(ctx context.Context, present *api.Allocation) {
	a.alloc = present
	for _, s := range a.steps {
		if r, ok := s.(resumer); ok {
			r.resume(ctx, a)
		}
	}
}

// attend starts what accompanies a running attempt.
func (a *attempt) attend(ctx context.Context, running *sync.WaitGroup) {
	for _, s := range a.steps {
		if at, ok := s.(attendant); ok {
			running.Go(func() { at.attend(ctx, a) })
		}
	}
}

// down removes what the steps have left, in reverse order.
func (a *attempt) down(left bool) {
	for i := len(a.steps) - 1; i >= 0; i-- {
		if d, ok := a.steps[i].(downer); ok {
			d.down(a, left)
		}
	}
}
