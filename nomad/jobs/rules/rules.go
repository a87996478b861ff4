// Package rules says which jobs are valid. It reports everything that is wrong at once and names
// group, task and field. It is pure.
package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Limits bound what a job may ask for.
type Limits struct {
	PriorityMax int
	// CountMax bounds the sum of the groups' counts; 0 means no bound.
	CountMax int
}

// Default are the limits of the compatible system.
func Default() Limits { return Limits{PriorityMax: 100, CountMax: 50_000} }

// check collects what is wrong.
type check struct {
	limits Limits
	errs   []error
}

func (c *check) wrong(bad bool, format string, args ...any) {
	if bad {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

var jobTypes = []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch}

// Check lists everything that is wrong with a job.
func Check(j *api.Job, limits Limits) []error {
	c := &check{limits: limits}
	c.wrong(j.ID == "", "job has no ID")
	c.wrong(strings.ContainsAny(j.ID, " \x00"), "job ID %q contains a space or NUL", j.ID)
	c.wrong(strings.ContainsRune(j.Name, 0), "job name contains NUL")
	c.wrong(!slices.Contains(jobTypes, j.Type), "job type %q is not one of %s", j.Type, strings.Join(jobTypes, ", "))
	c.wrong(j.Priority < 1 || j.Priority > limits.PriorityMax, "job priority %d is not between 1 and %d", j.Priority, limits.PriorityMax)
	c.wrong(slices.Contains(j.Datacenters, ""), "a datacenter is empty")
	c.wrong(len(j.TaskGroups) == 0, "job has no task group")
	c.system(j)
	c.constraints("job", j.Constraints)
	total, seen := 0, map[string]bool{}
	for i, g := range j.TaskGroups {
		where := fmt.Sprintf("group %q", g.Name)
		c.wrong(g.Name == "", "group %d has no name", i+1)
		c.wrong(seen[g.Name], "%s is there twice", where)
		seen[g.Name] = true
		total += g.Count
		c.group(j, g, where)
	}
	c.wrong(limits.CountMax > 0 && total > limits.CountMax, "job asks for %d allocations, at most %d are allowed", total, limits.CountMax)
	return c.errs
}

// system checks what system jobs cannot have.
func (c *check) system(j *api.Job) {
	if j.Type != api.JobTypeSystem && j.Type != api.JobTypeSysbatch {
		return
	}
	c.wrong(len(j.Affinities) > 0, "a %s job runs on every node and cannot have affinities", j.Type)
	c.wrong(len(j.Spreads) > 0, "a %s job runs on every node and cannot have spreads", j.Type)
	for _, g := range j.TaskGroups {
		c.wrong(g.Count > 1, "group %q: a %s job runs once per node, count %d is not possible", g.Name, j.Type, g.Count)
		c.wrong(g.ReschedulePolicy != nil && (g.ReschedulePolicy.Attempts > 0 || g.ReschedulePolicy.Unlimited),
			"group %q: a %s job is not rescheduled", g.Name, j.Type)
	}
}

func (c *check) group(j *api.Job, g *api.TaskGroup, where string) {
	c.wrong(g.Count < 0, "%s: count %d is negative", where, g.Count)
	c.wrong(len(g.Tasks) == 0, "%s has no task", where)
	c.constraints(where, g.Constraints)
	c.restart(where, g.RestartPolicy)
	c.ports(where, g)
	c.volumes(j, g, where)
	leaders, mains, seen := 0, 0, map[string]bool{}
	for i, t := range g.Tasks {
		task := fmt.Sprintf("%s, task %q", where, t.Name)
		c.wrong(t.Name == "", "%s: task %d has no name", where, i+1)
		c.wrong(seen[t.Name], "%s is there twice", task)
		seen[t.Name] = true
		if t.Leader {
			leaders++
		}
		if t.Lifecycle == nil {
			mains++
		}
		c.task(g, t, task)
	}
	c.wrong(leaders > 1, "%s has %d leaders, at most one is possible", where, leaders)
	c.wrong(len(g.Tasks) > 0 && mains == 0, "%s has no main task: every task has a lifecycle block", where)
}

func (c *check) restart(where string, p *api.RestartPolicy) {
	if p == nil {
		return
	}
	c.wrong(p.Mode != api.RestartPolicyModeFail && p.Mode != api.RestartPolicyModeDelay, "%s: restart mode %q is not fail or delay", where, p.Mode)
	c.wrong(p.Attempts < 0, "%s: restart attempts %d is negative", where, p.Attempts)
	c.wrong(p.Attempts > 0 && p.Interval <= 0, "%s: restart interval must be positive", where)
	c.wrong(p.Attempts > 0 && p.Interval > 0 && int64(p.Attempts)*int64(p.Delay) > int64(p.Interval),
		"%s: %d restarts with a delay of %v do not fit into an interval of %v", where, p.Attempts, p.Delay, p.Interval)
}

func (c *check) ports(where string, g *api.TaskGroup) {
	labels, static := map[string]bool{}, map[int]string{}
	for _, n := range g.Networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			c.wrong(labels[p.Label], "%s: port %q is there twice", where, p.Label)
			labels[p.Label] = true
			c.wrong(p.Value < 0 || p.Value > 65535, "%s: port %q: %d is not a port", where, p.Label, p.Value)
			if p.Value > 0 {
				c.wrong(static[p.Value] != "" && !p.IgnoreCollision, "%s: ports %q and %q are both %d", where, static[p.Value], p.Label, p.Value)
				static[p.Value] = p.Label
			}
		}
	}
	c.wrong(len(g.Networks) > 1, "%s has %d networks, at most one is possible", where, len(g.Networks))
}

func (c *check) volumes(j *api.Job, g *api.TaskGroup, where string) {
	for _, name := range slices.Sorted(keys(g.Volumes)) {
		v := g.Volumes[name]
		at := fmt.Sprintf("%s, volume %q", where, name)
		c.wrong(v.Type != api.VolumeTypeCSI && v.Type != api.VolumeTypeHost, "%s: type %q is not csi or host", at, v.Type)
		c.wrong(v.Source == "", "%s has no source", at)
		if v.Type != api.VolumeTypeCSI {
			continue
		}
		c.wrong(v.AccessMode == "", "%s: access_mode is required for CSI volumes", at)
		c.wrong(v.AttachmentMode == "", "%s: attachment_mode is required for CSI volumes", at)
		c.wrong(v.AttachmentMode != "" && v.AttachmentMode != string(api.AttachmentFileSystem) && v.AttachmentMode != string(api.AttachmentBlock),
			"%s: attachment_mode %q is not file-system or block-device", at, v.AttachmentMode)
		c.wrong(v.ReadOnly && strings.HasSuffix(v.AccessMode, "-single-writer"), "%s: read_only with access mode %s", at, v.AccessMode)
		c.wrong(v.PerAlloc && (j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch), "%s: per_alloc is not possible in a %s job", at, j.Type)
		c.canary(g, v, at)
	}
}

// canary refuses canaries that could never get their volume.
func (c *check) canary(g *api.TaskGroup, v *api.VolumeRequest, at string) {
	exclusive := strings.HasSuffix(v.AccessMode, "single-writer") || v.AccessMode == string(api.AccessSingleNodeWriter)
	canaries := g.Update != nil && g.Update.Canary > 0
	c.wrong(canaries && exclusive && !v.ReadOnly,
		"%s: a canary can never get a volume with access mode %s while the old allocation holds it; set update.canary to 0", at, v.AccessMode)
	c.wrong(canaries && v.PerAlloc, "%s: per_alloc is not possible with canaries", at)
}

func (c *check) task(g *api.TaskGroup, t *api.Task, where string) {
	c.wrong(t.Name == "alloc" || strings.ContainsAny(t.Name, "/\\\x00"), "%s: the name is not possible for a directory", where)
	c.wrong(t.Driver == "", "%s has no driver", where)
	c.wrong(t.KillTimeout < 0, "%s: kill_timeout is negative", where)
	c.wrong(t.ShutdownDelay < 0, "%s: shutdown_delay is negative", where)
	c.constraints(where, t.Constraints)
	c.restart(where, t.RestartPolicy)
	if r := t.Resources; r != nil {
		c.wrong(r.CPU < 0 || r.CPU == 0 && r.Cores == 0, "%s: resources need cpu or cores", where)
		c.wrong(r.MemoryMB < 10, "%s: memory %d MB is below the minimum of 10 MB", where, r.MemoryMB)
		c.wrong(r.MemoryMaxMB != 0 && r.MemoryMaxMB < r.MemoryMB, "%s: memory_max %d MB is below memory %d MB", where, r.MemoryMaxMB, r.MemoryMB)
	}
	if l := t.LogConfig; l != nil && !l.Disabled {
		c.wrong(l.MaxFiles < 1 || l.MaxFileSizeMB < 1, "%s: logs need max_files and max_file_size of at least 1", where)
		c.wrong(g.EphemeralDisk != nil && g.EphemeralDisk.SizeMB > 0 && l.MaxFiles*l.MaxFileSizeMB >= g.EphemeralDisk.SizeMB && l.MaxFiles*l.MaxFileSizeMB > 100,
			"%s: logs of %d MB do not fit into ephemeral_disk of %d MB", where, l.MaxFiles*l.MaxFileSizeMB, g.EphemeralDisk.SizeMB)
	}
	if l := t.Lifecycle; l != nil {
		c.wrong(!slices.Contains([]string{"prestart", "poststart", "poststop"}, l.Hook), "%s: lifecycle hook %q is not prestart, poststart or poststop", where, l.Hook)
	}
	for _, m := range t.VolumeMounts {
		c.wrong(g.Volumes[m.Volume] == nil, "%s: volume_mount names volume %q, which the group does not have", where, m.Volume)
		c.wrong(m.Destination == "", "%s: volume_mount of %q has no destination", where, m.Volume)
	}
	c.plugin(t.CSIPluginConfig, where)
}

var pluginID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (c *check) plugin(p *api.CSIPluginConfig, where string) {
	if p == nil {
		return
	}
	c.wrong(!pluginID.MatchString(p.ID), "%s: csi_plugin id %q must be letters, digits, dots, dashes or underscores, at most 128", where, p.ID)
	c.wrong(!slices.Contains([]string{api.CSIPluginTypeNode, api.CSIPluginTypeController, api.CSIPluginTypeMonolith}, p.Type),
		"%s: csi_plugin type %q is not node, controller or monolith", where, p.Type)
	mount, base := path.Clean("/"+p.MountDir), path.Clean("/"+p.StagePublishBaseDir)
	c.wrong(p.MountDir != "" && p.StagePublishBaseDir != "" && (base == mount || strings.HasPrefix(base, mount+"/")),
		"%s: stage_publish_base_dir %s must not be inside mount_dir %s", where, p.StagePublishBaseDir, p.MountDir)
	c.wrong(p.HealthTimeout < 0, "%s: csi_plugin health_timeout is negative", where)
}

// Plugins lists the CSI plugins that the job's tasks are.
func Plugins(j *api.Job) []string {
	var ids []string
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if p := t.CSIPluginConfig; p != nil && !slices.Contains(ids, p.ID) {
				ids = append(ids, p.ID)
			}
		}
	}
	return ids
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
