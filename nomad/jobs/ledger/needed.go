package ledger

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// usersShown bounds how many users of a plugin an error names.
const usersShown = 10

// Needed refuses to let a job go, or to change it to next, while volumes need a CSI plugin that only this
// job provides: without it they cannot be unmounted or detached.
func Needed(tx *state.Txn, old, next *api.Job) error {
	if old == nil || old.Stop {
		return nil
	}
	for id := range plugins(old) {
		if next != nil && plugins(next)[id] || elsewhere(tx, old, id) {
			continue
		}
		if users := usersOf(tx, id); len(users) > 0 {
			return fault.New(fault.Conflict,
				"job %q provides the CSI plugin %q, which is in use: %s; stop those jobs first, or stop this one with -force",
				old.ID, id, strings.Join(users, "; "))
		}
	}
	return nil
}

// plugins are the CSI plugins that the job's tasks provide.
func plugins(j *api.Job) map[string]bool {
	out := map[string]bool{}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.CSIPluginConfig != nil && (g.Count > 0 || j.Type == api.JobTypeSystem) {
				out[t.CSIPluginConfig.ID] = true
			}
		}
	}
	return out
}

// elsewhere reports whether another job that is not stopped provides the plugin as well.
func elsewhere(tx *state.Txn, than *api.Job, plugin string) bool {
	for j := range tx.JobsByPlugin(plugin) {
		if !j.Stop && (j.ID != than.ID || j.Namespace != than.Namespace) && plugins(j)[plugin] {
			return true
		}
	}
	return false
}

// usersOf names the claims and attachments that need the plugin to end.
func usersOf(tx *state.Txn, plugin string) []string {
	var users []string
	more, claimed := 0, map[string]bool{}
	add := func(user string) {
		if len(users) < usersShown {
			users = append(users, user)
		} else {
			more++
		}
	}
	for c := range tx.Claims() {
		if c.PluginID == plugin && c.State != api.ClaimWaiting {
			claimed[c.ExternalID+" "+c.NodeID] = true
			add(fmt.Sprintf("volume %q by allocation %s of job %q on node %s", c.VolumeID, c.AllocID, c.JobID, c.NodeID))
		}
	}
	for a := range tx.Attachments() {
		if a.PluginID == plugin && !claimed[a.ExternalID+" "+a.NodeID] {
			add(fmt.Sprintf("external volume %q attached to node %s", a.ExternalID, a.NodeID))
		}
	}
	if more > 0 {
		users = append(users, fmt.Sprintf("and %d more", more))
	}
	return users
}
