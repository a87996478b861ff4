// Package commandtext words the commands that end what stands in a volume's way, for those who are refused because of it.
package commandtext

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// StopJob ends the use of volumes by a job that runs.
func StopJob(ns, job string) string { return command("job stop", ns, job) }

// JobStatus shows why groups of a job are not placed.
func JobStatus(ns, job string) string { return command("job status", ns, job) }

// AllocStatus shows the events of an allocation.
func AllocStatus(ns, alloc string) string { return command("alloc status", ns, alloc) }

// RestartAlloc restarts the tasks of an allocation.
func RestartAlloc(ns, alloc string) string { return command("alloc restart", ns, alloc) }

// PutVariable sets the items of a variable.
func PutVariable(ns, path string) string { return command("var put", ns, path) + " KEY=VALUE" }

// RepairVolume runs the safe repairs of a volume.
func RepairVolume(ns, volume string) string { return command("volume doctor -fix", ns, volume) }

// Kill ends the tasks of an allocation that is being stopped, without waiting for their kill_timeout.
func Kill(ns, alloc string) string { return command("alloc signal -s SIGKILL", ns, alloc) }

// Detach has a node give a volume back, and its storage detach it.
func Detach(ns, volume, node string) string { return command("volume detach", ns, volume, node) }

// DetachByForce returns the command that ends what a volume has on a node, whatever the node and the driver report.
func DetachByForce(ns, volume, node string) string {
	return command("volume detach -force", ns, volume, node)
}

// DetachExternal is [DetachByForce] for what no volume names any more.
func DetachExternal(plugin, external, node string) string {
	return "nomad volume detach -force -plugin " + word(plugin) + " -external-id " + word(external) + " " + word(node)
}

// PurgeNode returns the command that forgets a node that is permanently lost.
func PurgeNode(node string) string {
	return "nomad operator api -X PUT /v1/node/" + word(node) + "/purge"
}

// Delete deletes a volume at its provider, and gives a creation up that has not ended.
func Delete(ns, volume string) string { return command("volume delete", ns, volume) }

// Deregister forgets a volume.
func Deregister(ns, volume string) string { return command("volume deregister", ns, volume) }

// Forget forgets a volume whatever its driver has under way.
func Forget(ns, volume string) string { return command("volume deregister -force", ns, volume) }

// DeleteSnapshot deletes a snapshot at its provider, also one that is being made: by its name while its id is not known.
func DeleteSnapshot(plugin, id string) string {
	return command("volume snapshot delete", "", plugin, id)
}

// ForgetSnapshot forgets all that is intended with a snapshot.
func ForgetSnapshot(plugin, id string) string {
	return command("volume snapshot delete -force", "", plugin, id)
}

// Claim ends a claim: by stopping who uses the volume, else by its node, else by an operator override.
func Claim(c *api.VolumeClaim, runs, lost bool) string {
	switch {
	case runs:
		return StopJob(c.Namespace, c.JobID)
	case lost:
		return DetachByForce(c.Namespace, c.VolumeID, c.NodeID)
	}
	return Detach(c.Namespace, c.VolumeID, c.NodeID)
}

// Snapshot ends the request for a snapshot that is being made.
func Snapshot(i *api.SnapshotIntent) string {
	id := i.Name
	if i.SnapshotID != "" {
		id = i.SnapshotID
	}
	return DeleteSnapshot(i.PluginID, id)
}

// Unanswered describes the command that ends a creation or deletion whose driver does not respond, and forgets the
// volume.
func Unanswered(v *api.Volume) string {
	return "when its driver does not do it, `" + Forget(v.Namespace, v.ID) + "` forgets it, whatever is at the provider"
}

func command(verb, ns string, args ...string) string {
	s := "nomad " + verb
	if ns != "" && ns != api.DefaultNamespace {
		s += " -namespace " + word(ns)
	}
	for _, a := range args {
		s += " " + word(a)
	}
	return s
}

// word is text as one word of a shell's command.
func word(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(c rune) bool { return !strings.ContainsRune(plain, c) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// plain are the characters that mean nothing to a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,="
