package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// slow is the age from which a step that usually takes seconds is reported as a warning.
const slow = 2 * time.Minute

// rules are the rules for volumes.
var rules = []func(Facts) []*api.StorageFinding{
	held, operation, nodeExpansion, plugin, places, secrets, claims, mounts, attachments, staleMounts, snapshots, waiting,
}

// Volume returns what is wrong with a volume and who uses it, the most urgent first.
func Volume(f Facts) []*api.StorageFinding {
	var all []*api.StorageFinding
	for _, rule := range rules {
		for _, found := range rule(f) {
			found.Namespace, found.VolumeID, found.PluginID = f.Volume.Namespace, f.Volume.ID, f.Volume.PluginID
			all = append(all, found)
		}
	}
	Sort(all)
	return all
}

var severities = []string{api.SeverityError, api.SeverityWarning, api.SeverityInfo}

// Sort orders findings by severity, volume, plugin and age.
func Sort(all []*api.StorageFinding) {
	slices.SortStableFunc(all, func(a, b *api.StorageFinding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.VolumeID, b.VolumeID), cmp.Compare(a.PluginID, b.PluginID),
			cmp.Compare(a.Since, b.Since),
		)
	})
}

// old reports whether a state has lasted for longer than it should.
func (f Facts) old(since int64) bool { return since != 0 && time.Duration(f.Now-since) > slow }

// pending is the severity of a step that ends by itself: a warning once it is old.
func (f Facts) pending(since int64) string {
	if f.old(since) {
		return api.SeverityWarning
	}
	return api.SeverityInfo
}

func one(f *api.StorageFinding) []*api.StorageFinding { return []*api.StorageFinding{f} }

func held(f Facts) []*api.StorageFinding {
	if f.Held == "" {
		return nil
	}
	return one(&api.StorageFinding{
		Kind: "restore-hold", Severity: api.SeverityError, Text: f.Held, Next: "the volume is usable when every node has reported its mounts",
	})
}

// operation reports a creation, deletion or expansion that runs or failed.
func operation(f Facts) []*api.StorageFinding {
	v, p := f.Volume, f.Volume.Provision
	//exhaustive:enforce
	switch p.State {
	case api.VolumeFailed:
		return one(&api.StorageFinding{
			Kind: "create-failed", Severity: api.SeverityError, Since: v.ModifyTime, Text: "the driver did not create the volume: " + p.LastError,
			Next: "nothing; correct the specification and create the volume again, or delete it", Command: commandtext.Delete(v.Namespace, v.ID),
		})
	case api.VolumeCreating, api.VolumeDeleting, api.VolumeExpanding:
		found := &api.StorageFinding{
			Kind: "operation-running", Severity: f.pending(v.ModifyTime), Since: v.ModifyTime, Text: "the volume is " + string(p.State),
			Next: "the call of the driver is repeated until it ends", Repair: api.RepairRetry,
		}
		if p.LastError != "" {
			found.Kind, found.Severity, found.Text = "operation-failing", api.SeverityError, found.Text+", and the driver fails: "+p.LastError
			found.Command = commandtext.Forget(v.Namespace, v.ID)
			if p.State == api.VolumeCreating {
				found.Command = commandtext.Delete(v.Namespace, v.ID)
			}
		}
		return one(found)
	case api.VolumeAvailable:
	}
	var all []*api.StorageFinding
	if p.LastError != "" {
		all = append(all, &api.StorageFinding{
			Kind: "operation-failed", Severity: api.SeverityWarning, Since: v.ModifyTime, Text: "the last operation failed: " + p.LastError,
			Next: "nothing; the volume is usable as it was before, and the operation can be requested again",
		})
	}
	if p.CapacityBytes > 0 && p.CapacityBytes < v.RequestedCapacityMin {
		all = append(all, &api.StorageFinding{
			Kind: "too-small", Severity: api.SeverityWarning,
			Text: fmt.Sprintf("the volume has %d bytes and its specification requests at least %d", p.CapacityBytes, v.RequestedCapacityMin),
			Next: "nothing; `nomad volume create` with its file expands the volume",
		})
	}
	if p.NotValidated != "" {
		all = append(all, &api.StorageFinding{
			Kind: "not-validated", Severity: api.SeverityInfo, Text: "the driver has not confirmed the capabilities of the volume: " + p.NotValidated,
		})
	}
	return all
}

func nodeExpansion(f Facts) []*api.StorageFinding {
	p := f.Volume.Provision
	switch {
	case p.NotGrown:
		return one(&api.StorageFinding{
			Kind: "file-system-not-grown", Severity: api.SeverityWarning, Text: "a node could not grow the file system and does not retry: " + p.LastError,
			Next: "nothing; `nomad volume create` with the file of the volume requests the expansion again",
		})
	case len(p.NodeExpansion) > 0:
		return one(&api.StorageFinding{
			Kind: "expansion-pending", Severity: f.pending(f.Volume.ModifyTime), Since: f.Volume.ModifyTime,
			Text: "the file system has not grown yet on: " + strings.Join(p.NodeExpansion, ", "),
			Next: "a node grows it now if the volume is mounted, else with the next mount", Repair: api.RepairRetry,
		})
	}
	return nil
}

// plugin reports what keeps the volume from being placed: instances that are missing or unhealthy.
func plugin(f Facts) []*api.StorageFinding {
	id, p := f.Volume.PluginID, f.Plugin
	status := "nomad plugin doctor " + id
	if p == nil {
		return one(&api.StorageFinding{
			Kind: "plugin-missing", Severity: api.SeverityError, Text: fmt.Sprintf("no node reports CSI plugin %q and no job declares it", id),
			Next: "claims and mounts wait until the plugin runs", Command: "nomad plugin status",
		})
	}
	var all []*api.StorageFinding
	if p.NodesHealthy == 0 {
		all = append(all, &api.StorageFinding{
			Kind: "plugin-unhealthy", Severity: api.SeverityError, Text: fmt.Sprintf("CSI plugin %q has no healthy node instance, of %d expected%s", id, p.NodesExpected, why(p.Nodes)),
			Next: "the volume cannot be placed; mounts that exist stay and are unmounted when the plugin is back", Command: status,
		})
	} else if p.NodesHealthy < p.NodesExpected {
		all = append(all, &api.StorageFinding{
			Kind: "plugin-degraded", Severity: api.SeverityWarning, Text: fmt.Sprintf("%d of %d node instances of CSI plugin %q are healthy%s", p.NodesHealthy, p.NodesExpected, id, why(p.Nodes)),
			Next: "the volume can be placed on the other nodes", Command: status,
		})
	}
	if f.NeedsController && p.ControllersHealthy == 0 {
		all = append(all, &api.StorageFinding{
			Kind: "controller-unhealthy", Severity: api.SeverityError, Text: fmt.Sprintf("CSI plugin %q has no healthy controller, of %d expected%s", id, p.ControllersExpected, why(p.Controllers)),
			Next: "attach, detach and operations wait until a controller is healthy", Command: status,
		})
	}
	return all
}

// why names the first instance that is not healthy, with its reason.
func why(instances map[string]*api.CSIInfo) string {
	first := ""
	for node, i := range instances {
		if i != nil && !i.Healthy && (first == "" || node < first) {
			first = node
		}
	}
	if first == "" {
		return ""
	}
	return fmt.Sprintf("; node %s: %s", first, cmp.Or(instances[first].HealthDescription, "unhealthy"))
}

// places reports a volume that no node can use although its plugin works.
func places(f Facts) []*api.StorageFinding {
	if f.Plugin == nil || f.Plugin.NodesHealthy == 0 {
		return nil
	}
	switch {
	case f.Reachable == 0:
		return one(&api.StorageFinding{
			Kind: "topology", Severity: api.SeverityError, Text: fmt.Sprintf("none of the %d nodes with a healthy instance of CSI plugin %q reaches the topologies of the volume", f.Plugin.NodesHealthy, f.Volume.PluginID),
			Next: "the volume cannot be placed until a node of its topology runs the plugin", Command: "nomad plugin status -verbose " + f.Volume.PluginID,
		})
	case f.Full == f.Reachable:
		return one(&api.StorageFinding{
			Kind: "nodes-full", Severity: api.SeverityWarning, Text: fmt.Sprintf("all %d nodes that reach the volume have their maximum number of volumes of CSI plugin %q", f.Full, f.Volume.PluginID),
			Next: "the volume can be placed only where it is attached, until another volume leaves a node", Command: "nomad volume attachments -plugin " + f.Volume.PluginID,
		})
	}
	return nil
}

func secrets(f Facts) []*api.StorageFinding {
	if !f.SecretsMissing {
		return nil
	}
	v := f.Volume
	return one(&api.StorageFinding{
		Kind: "secrets-missing", Severity: api.SeverityError, Text: fmt.Sprintf("variable %q in namespace %q, which holds the secrets of the volume, does not exist", v.SecretsFrom, v.Namespace),
		Next: "calls of the driver fail and are repeated until the variable exists", Command: commandtext.PutVariable(v.Namespace, v.SecretsFrom),
	})
}

func snapshots(f Facts) (all []*api.StorageFinding) {
	for _, s := range f.Snapshots {
		found := &api.StorageFinding{
			Kind: "snapshot-running", Severity: f.pending(s.Since), Since: s.Since, Text: fmt.Sprintf("snapshot %q is %s", s.Name, s.State),
			Next: "the call of the driver is repeated until it ends", Command: s.Remedy, Repair: api.RepairRetry,
		}
		if s.LastError != "" {
			found.Kind, found.Severity, found.Text = "snapshot-failing", api.SeverityError, found.Text+", and the driver fails: "+s.LastError
		}
		all = append(all, found)
	}
	return all
}

func waiting(f Facts) (all []*api.StorageFinding) {
	for _, w := range f.Waiting {
		all = append(all, &api.StorageFinding{
			Kind: "job-waits", Severity: api.SeverityError, Since: w.Since, JobID: w.JobID, Text: fmt.Sprintf("group %q of job %q is not placed: %s", w.Group, w.JobID, w.Reason),
			Next: "the job is evaluated again when the volume or its plugin changes", Command: commandtext.JobStatus(f.Volume.Namespace, w.JobID),
		})
	}
	return all
}
