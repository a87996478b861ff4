package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// Limits bound what a job may ask for.
type Limits struct {
	PriorityMax int
	// CountMax bounds the sum of the groups' counts, and that of their canaries; 0 means [AllocsMax].
	CountMax int
	// SourceMax is the largest source of a job that is kept, with its variables, in bytes; 0 means [SourceDefault], and
	// below 0 none is.
	SourceMax int
}

// SourceDefault is the default limit of a job's stored source in bytes.
const SourceDefault = 1_000_000

// Source bounds the source of a job that is kept, in bytes.
func (l Limits) Source() int {
	if l.SourceMax == 0 {
		return SourceDefault
	}
	return max(l.SourceMax, 0)
}

// Counts bounds the sum of the groups' counts.
func (l Limits) Counts() int {
	if l.CountMax <= 0 {
		return AllocsMax
	}
	return min(l.CountMax, AllocsMax)
}

// Default are the limits of the compatible system.
func Default() Limits { return Limits{PriorityMax: 100, CountMax: 50_000} }

// check collects what is wrong.
type check struct {
	limits Limits
	job    *api.Job
	errs   []error
	// more is how many errors are not reported.
	more int
	// labels are the ports of the group that is looked at.
	labels map[string]bool
}

func (c *check) wrong(bad bool, format string, args ...any) {
	switch {
	case bad && len(c.errs) >= mistakesMax:
		c.more++
	case bad:
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// oneOf refuses a value that is none of the known ones.
func (c *check) oneOf(value string, known []string, format string, args ...any) {
	c.wrong(!slices.Contains(known, value), "%s %q is not one of %s", fmt.Sprintf(format, args...), value, strings.Join(known, ", "))
}

var jobTypes = []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch}

// IDMax is the longest ID of a job in bytes.
const IDMax = 1024

// nameMax is the longest name of a group or task in bytes: nodes make directories of them.
const nameMax = 128

// brief is a name as errors show it.
func brief(name string) string {
	if len(name) > nameMax {
		return name[:nameMax] + "..."
	}
	return name
}

// named refuses names that are long, or that a terminal would obey.
func (c *check) named(what, name string, limit int) {
	c.wrong(len(name) > limit, "%s %q is longer than %d characters", what, brief(name), limit)
	err := ids.CheckText(what, name)
	if err != nil {
		c.wrong(true, "%w", err)
	}
	c.wrong(err == nil && strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }),
		"%s %q contains characters that cannot be printed", what, brief(name))
}

// text refuses control and bidirectional characters.
func (c *check) text(field, value string) {
	if err := ids.CheckText(field, value); err != nil {
		c.wrong(true, "%w", err)
	}
}

func (c *check) metaKeys(where string, meta map[string]string) {
	for _, key := range sorted(meta) {
		c.text(where+": meta key", key)
	}
}

// description checks what the web UI shows. It may have several lines.
func (c *check) description(ui *api.JobUIConfig) {
	if ui == nil {
		return
	}
	c.text("job ui: description", strings.NewReplacer("\n", "", "\r", "", "\t", "").Replace(ui.Description))
	for _, link := range ui.Links {
		c.text("job ui: label of a link", link.Label)
		c.text("job ui: url of a link", link.URL)
	}
}

// Check lists everything that is wrong with a job.
func Check(j *api.Job, limits Limits) []error {
	if n := len(j.TaskGroups); n > bounds.GroupsMax {
		return []error{fmt.Errorf("job has %d groups, at most %d are possible", n, bounds.GroupsMax)}
	}
	if err := Breadth(j); err != nil {
		return []error{err}
	}
	c := &check{limits: limits, job: j}
	c.wrong(j.ID == "", "job has no ID")
	c.wrong(strings.ContainsAny(j.ID, " \x00"), "job ID %q contains a space or NUL", brief(j.ID))
	c.wrong(len(j.ID) > IDMax, "job ID %q is longer than %d characters", brief(j.ID), IDMax)
	c.text("job ID", strings.ReplaceAll(j.ID, "\n", "")) // clients of the compatible API register ids with line feeds
	c.text("namespace", j.Namespace)
	c.text("node pool", j.NodePool)
	for _, d := range j.Datacenters {
		c.text("datacenter", d)
	}
	c.metaKeys("job", j.Meta)
	c.description(j.UI)
	if j.Name != j.ID { // which is the name of a job without one
		c.named("job name", j.Name, IDMax)
	}
	c.oneOf(j.Type, jobTypes, "job type")
	c.wrong(j.Priority < 1 || j.Priority > limits.PriorityMax, "job priority %d is not between 1 and %d", j.Priority, limits.PriorityMax)
	c.wrong(slices.Contains(j.Datacenters, ""), "a datacenter is empty")
	c.wrong(len(j.TaskGroups) == 0, "job has no task group: add group \"name\" { task \"name\" { ... } }")
	c.constraints("job", j.Constraints)
	c.preferences("job", j.Affinities, j.Spreads)
	c.periodic(j.Periodic)
	c.parameterized(j.ParameterizedJob)
	c.groups()
	if c.more > 0 {
		c.errs = append(c.errs, fmt.Errorf("and %d more", c.more))
	}
	return c.errs
}

func (c *check) groups() {
	seen := map[string]bool{}
	for i, g := range c.job.TaskGroups {
		where := fmt.Sprintf("group %q", brief(g.Name))
		c.named("group name", g.Name, nameMax)
		c.wrong(g.Name == "", "group %d has no name", i+1)
		c.wrong(seen[g.Name], "%s is there twice", where)
		seen[g.Name] = true
		c.group(g, where)
	}
	if err := Excess(c.job, c.limits.Counts()); err != nil {
		c.wrong(true, "%w", err)
	}
}

// everywhere reports whether the job runs once on each node.
func everywhere(j *api.Job) bool { return j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch }

// ends reports whether the job's tasks end by themselves.
func ends(j *api.Job) bool { return j.Type == api.JobTypeBatch || j.Type == api.JobTypeSysbatch }

func (c *check) group(g *api.TaskGroup, where string) {
	c.wrong(g.Count < 0, "%s: count %d is negative", where, g.Count)
	c.wrong(everywhere(c.job) && g.Count > 1, "%s: a %s job runs once per node, count %d is not possible", where, c.job.Type, g.Count)
	c.wrong(len(g.Tasks) == 0, "%s has no task", where)
	c.metaKeys(where, g.Meta)
	c.labels = labels(g)
	c.wrong(g.ShutdownDelay < 0, "%s: shutdown_delay is negative", where)
	c.wrong(g.MaxRunDuration < 0, "%s: max_run_duration is negative", where)
	c.wrong(g.MaxRunDuration > 0 && !ends(c.job), "%s: max_run_duration is for batch and sysbatch jobs", where)
	c.constraints(where, g.Constraints)
	c.preferences(where, g.Affinities, g.Spreads)
	c.restart(where, g.RestartPolicy)
	c.reschedule(where, g.ReschedulePolicy)
	c.update(where, g.Update)
	c.migrate(where, g.Migrate)
	c.disconnect(where, g.Disconnect)
	c.scaling(where, g)
	c.network(where, g)
	c.volumes(where, g)
	if d := g.EphemeralDisk; d != nil {
		c.wrong(d.SizeMB < 10, "%s: ephemeral_disk of %d MB is below the minimum of 10 MB", where, d.SizeMB)
		c.atMost(d.SizeMB, QuantityMax, "%s: ephemeral_disk size", where)
	}
	c.tasks(where, g)
	c.services(where, g, nil, g.Services)
}

func (c *check) tasks(where string, g *api.TaskGroup) {
	leaders, mains, seen := 0, 0, map[string]bool{}
	for i, t := range g.Tasks {
		task := fmt.Sprintf("%s, task %q", where, brief(t.Name))
		c.named(where+": task name", t.Name, nameMax)
		c.wrong(t.Name == "", "%s: task %d has no name", where, i+1)
		c.wrong(seen[t.Name], "%s is there twice", task)
		seen[t.Name] = true
		c.metaKeys(task, t.Meta)
		if t.Leader {
			leaders++
		}
		if t.Lifecycle == nil {
			mains++
		}
		c.task(task, g, t)
	}
	c.wrong(leaders > 1, "%s has %d leaders, at most one is possible", where, leaders)
	c.wrong(len(g.Tasks) > 0 && mains == 0, "%s has no main task: every task has a lifecycle block", where)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
