package tasks

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// csiPlugin prepares and supervises a task with a csi_plugin block.
type csiPlugin struct{ *task }

func (csiPlugin) name() string { return "csi_plugin" }

func (s csiPlugin) up(_ context.Context, a *attempt) (err error) {
	if a.plugin == nil {
		return nil
	}
	if a.mounts, a.extraEnv, err = a.plugin.Prepare(); err != nil {
		return fmt.Errorf("prepare csi plugin: %w", err)
	}
	return nil
}

func (s csiPlugin) attend(ctx context.Context, a *attempt) {
	if a.plugin != nil {
		a.plugin.Supervise(ctx, s.emitPluginEvent, s.restartPlugin)
	}
}

func (s csiPlugin) down(a *attempt, left bool) {
	if a.plugin != nil && !left {
		a.plugin.Cleanup()
	}
}

// plugin returns what a task with a csi_plugin block needs, nil for others.
func (t *task) plugin(spec *api.Task, d driver.Driver) (Plugin, error) {
	if spec.CSIPluginConfig == nil {
		return nil, nil
	}
	if t.g.conf.Plugin == nil {
		return nil, fault.New(fault.Unimplemented, "task %s: this node does not run csi plugins", t.name)
	}
	return t.g.conf.Plugin(t.g.present(), spec, d.Capabilities().Isolation != driver.IsolationNone)
}

func (t *task) emitPluginEvent(kind, text string) { t.emit(message(kind, text)) }

// restartPlugin asks for a restart that counts as a failure; one request at a time is enough.
func (t *task) restartPlugin(reason string) { t.askOnce(restartRequest{reason: reason, counted: true}) }
