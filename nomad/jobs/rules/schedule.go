package rules

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/cron"
)

// schedule checks when a task runs. A plugin that is paused would leave its volumes behind, and the stop of an allocation
// would wait for a poststop task.
func (c *check) schedule(where string, t *api.Task) {
	s := t.Schedule
	if s == nil {
		return
	}
	c.wrong(t.CSIPluginConfig != nil, "%s: a task with csi_plugin cannot have a schedule", where)
	c.wrong(t.Lifecycle != nil && t.Lifecycle.Hook == api.TaskLifecycleHookPoststop, "%s: a poststop task cannot have a schedule", where)
	if s.Cron == nil {
		c.wrong(true, "%s: schedule has no cron block", where)
		return
	}
	_, err := cron.NewWindow(s.Cron)
	c.wrong(err != nil, "%s: schedule: %v", where, err)
}
