package jobs

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// pluginWarnings returns the effects of registering the job on volumes in use through its CSI plugins.
func pluginWarnings(tx *state.Txn, j *api.Job) (list []string) {
	old := tx.Job(j.Namespace, j.ID)
	if err := ledger.Needed(tx, old, j); err != nil {
		return []string{"registering this job will be refused: " + err.Error()}
	}
	replaced := func(group string) bool { return reconcile.Destructive(old, j, group) }
	for _, r := range ledger.Replacements(tx, old, j, replaced) {
		list = append(list, replacementText(r))
	}
	return list
}

func replacementText(r ledger.Replacement) string {
	var uses []string
	use := func(n int, one, many string) {
		switch {
		case n == 1:
			uses = append(uses, "1 "+one)
		case n > 1:
			uses = append(uses, fmt.Sprintf("%d %s", n, many))
		}
	}
	on := "1 node"
	if r.Nodes > 1 {
		on = fmt.Sprintf("%d nodes", r.Nodes)
	}
	use(r.Mounts, "volume mounted on "+on, "volumes mounted on "+on)
	use(r.Attached, "external volume attached", "external volumes attached")
	text := fmt.Sprintf("CSI plugin %q is replaced while it has %s; calls wait until the new instance is healthy", r.PluginID, strings.Join(uses, " and "))
	if r.Mounts > 0 {
		text += ", and mounts stay unless the driver serves them itself (as FUSE drivers do): a mount that is lost this way is handled by on_mount_dead"
	}
	return text
}
