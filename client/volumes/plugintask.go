package volumes

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// PluginTask is what a task with a csi_plugin block needs around its life. It fits tasks.Plugin.
type PluginTask struct{}

// PluginTask returns what the task needs; isolated tells that it has file system isolation.
func (s *Service) PluginTask(alloc *api.Allocation, task *api.Task, isolated bool) (*PluginTask, error) {
	return &PluginTask{}, nil
}

// Prepare makes the directories of the plugin and returns its mounts and variables.
func (p *PluginTask) Prepare() ([]driver.Mount, map[string]string, error) { return nil, nil, nil }

// Supervise waits for the plugin's socket, registers the plugin and watches its health until ctx ends.
// say records an event of the task, restart asks for a restart that counts as a failure.
func (p *PluginTask) Supervise(ctx context.Context, say func(eventType, message string), restart func(reason string)) {
}

// Cleanup removes the socket directory after the task has ended. It never descends into a mount.
func (p *PluginTask) Cleanup() {}
