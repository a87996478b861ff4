package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/view"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func jobDetail(j *api.Job, s *api.JobSummary, d *api.Deployment, evals []*api.Evaluation, list []*api.AllocStub, children []*api.JobStub, now time.Time) content {
	n := counts(s)
	c := content{facts: [][2]string{
		{"Job", j.ID},
		{"Status", find.JobStatus(j.Status, j.Stop) + ", version " + strconv.FormatUint(j.Version, 10) + ", submitted " + view.Ago(j.SubmitTime, now)},
		{"Allocations", fmt.Sprintf("%d running, %d starting, %d not placed, %d failed, %d lost, %d complete", n.Running, n.Starting, n.Queued, n.Failed, n.Lost+n.Unknown, n.Complete)},
	}}
	if j.StatusDescription != "" {
		c.facts = append(c.facts, [2]string{"Reason", j.StatusDescription})
	}
	if n.Queued > 0 {
		if at := slices.IndexFunc(evals, func(e *api.Evaluation) bool { return len(e.FailedTGAllocs) > 0 }); at >= 0 {
			c.facts = append(c.facts, [2]string{"Not placed", rows.Failures(evals[at].FailedTGAllocs)})
		}
	}
	if d != nil {
		c.facts = append(c.facts, [2]string{"Deployment", short(d.ID) + " " + d.Status + ": " + d.StatusDescription})
		for _, name := range sortedKeys(d.TaskGroups) {
			if g := d.TaskGroups[name]; g != nil {
				c.facts = append(c.facts, [2]string{"", fmt.Sprintf("group %s: %d of %d placed, %d healthy, %d unhealthy", view.Inline(name), g.PlacedAllocs, g.DesiredTotal, g.HealthyAllocs, g.UnhealthyAllocs)})
			}
		}
	}
	if len(list) > 0 {
		c.sections = append(c.sections, allocSection("Allocations, newest first", list, false, now))
	}
	if len(children) > 0 {
		s := jobList(children, false, now).sections[0]
		s.title = "Instances"
		c.sections = append(c.sections, s)
	}
	return c
}

// tasksOf are the names of the tasks of an allocation, in the order of the job.
func tasksOf(a *api.Allocation) (names []string) {
	if a.Job != nil {
		for _, g := range a.Job.TaskGroups {
			if g.Name == a.TaskGroup {
				for _, t := range g.Tasks {
					names = append(names, t.Name)
				}
			}
		}
	}
	if len(names) == 0 {
		return sortedKeys(a.TaskStates)
	}
	return names
}

func allocation(a *api.Allocation, now time.Time) content {
	self := place{kind: alloc, namespace: a.Namespace, id: a.ID}
	reason, _ := allocReason(rows.Stub(a))
	c := content{tasks: tasksOf(a), facts: [][2]string{
		{"Allocation", a.ID},
		{"Job", a.JobID + ", group " + a.TaskGroup},
		{"Node", strings.TrimSpace(a.NodeName + " " + short(a.NodeID))},
		{"Status", a.ClientStatus + ", wanted: " + a.DesiredStatus + ", created " + view.Ago(a.CreateTime, now)},
	}}
	if text := cmp.Or(a.ClientDescription, a.DesiredDescription, reason); text != "" {
		c.facts = append(c.facts, [2]string{"Reason", text})
	}
	tasks := section{title: "Tasks (enter or l: log, s: shell)", columns: []string{"Task", "State", "Restarts", "Since", "Last event"}}
	type entry struct {
		*api.TaskEvent
		task string
	}
	var events []entry
	for _, name := range c.tasks {
		cells, how := []string{name, "pending", "0", "", ""}, calm
		if t := a.TaskStates[name]; t != nil {
			since := t.StartedAt
			if !t.FinishedAt.IsZero() {
				since = t.FinishedAt
			}
			if !since.IsZero() {
				cells[3] = age(since.UnixNano(), now)
			}
			cells[1], cells[2] = t.State, strconv.FormatUint(t.Restarts, 10)
			if t.Failed {
				how = failing
			}
			for _, e := range t.Events {
				if e != nil {
					events, cells[4] = append(events, entry{e, name}), e.Type+": "+e.DisplayMessage
				}
			}
		}
		of := self
		of.task = name
		tasks.rows = append(tasks.rows, row{cells, of, how})
	}
	slices.SortStableFunc(events, func(a, b entry) int { return cmp.Compare(b.Time, a.Time) })
	list := section{title: "Events, newest first", columns: []string{"Age", "Task", "Event", "Message"}}
	for _, e := range events {
		list.rows = append(list.rows, row{cells: []string{age(e.Time, now), e.task, e.Type, e.DisplayMessage}})
	}
	c.sections = nonEmpty(tasks, list)
	return c
}

func nonEmpty(all ...section) (out []section) {
	for _, s := range all {
		if len(s.rows) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func volumeDetail(v *api.VolumeDetail, found []*api.StorageFinding, events []*api.VolumeEvent, now time.Time) content {
	self := place{kind: volume, namespace: v.Namespace, id: v.ID}
	c := content{facts: [][2]string{
		{"Volume", v.ID + " in namespace " + v.Namespace},
		{"Plugin", fmt.Sprintf("%s, %d of %d nodes healthy, %d of %d controllers", v.PluginID, v.NodesHealthy, v.NodesExpected, v.ControllersHealthy, v.ControllersExpected)},
		{"Access", string(v.AccessMode) + " " + string(v.AttachmentMode)},
	}}
	if v.Capacity > 0 {
		c.facts = append(c.facts, [2]string{"Capacity", view.Bytes(v.Capacity)})
	}
	if v.LastError != "" {
		c.facts = append(c.facts, [2]string{"Last error", v.LastError})
	}
	for _, f := range found {
		c.facts = append(c.facts, [2]string{"Doctor", "[" + f.Severity + "] " + f.Text})
		for _, more := range [][2]string{{"next", f.Next}, {"command", f.Command}} {
			if more[0] == "next" && more[1] != "" {
				more[1] = next(f, now)
			}
			if more[1] != "" {
				c.facts = append(c.facts, [2]string{"  " + more[0], more[1]})
			}
		}
	}
	held := section{title: "Claims (d: detach)", columns: []string{"Phase", "Mode", "Job", "Alloc", "Node", "Age", "Next or reason"}}
	for _, l := range v.Claims {
		of := self
		of.node, of.claim = l.NodeID, l.AllocID+l.Use
		how := calm
		if l.State != api.ClaimReady {
			how = waiting
		}
		held.rows = append(held.rows, row{[]string{phase(l), string(l.Mode), l.JobID, short(l.AllocID), short(l.NodeID), age(l.Since, now), retry(l.LastError, l.NextRetry, now)}, of, how})
	}
	attached := section{title: "Attachments (d: detach)", columns: []string{"State", "Node", "Age", "Next or reason"}}
	for _, a := range v.Attachments {
		of := self
		of.node = a.NodeID
		attached.rows = append(attached.rows, row{[]string{string(a.State), short(a.NodeID), age(a.Since, now), retry(a.LastError, a.NextRetry, now)}, of, calm})
	}
	past := section{title: "Timeline, newest first", columns: []string{"Age", "What", "Result", "Job", "Alloc", "Node", "Took", "Text"}}
	for _, e := range slices.Backward(events) {
		took := ""
		if e.Took > 0 {
			took = e.Took.Round(time.Millisecond).String()
		}
		past.rows = append(past.rows, row{cells: []string{age(e.Time, now), e.What, e.Result, e.JobID, short(e.AllocID), short(e.NodeID), took, e.Text}})
	}
	c.sections = nonEmpty(held, attached, allocSection("Allocations", v.Allocations, false, now), past)
	return c
}

func nodeDetail(n *api.Node, list []*api.AllocStub, now time.Time) content {
	var drivers []string
	for _, name := range sortedKeys(n.Drivers) {
		if d := n.Drivers[name]; d != nil && d.Detected {
			state := "healthy"
			if !d.Healthy {
				state = "unhealthy (" + view.Line(d.HealthDescription) + ")"
			}
			drivers = append(drivers, name+" "+state)
		}
	}
	plugins := sortedKeys(n.CSINodePlugins)
	c := content{facts: [][2]string{
		{"Node", n.Name + " " + n.ID},
		{"Status", n.Status + ", " + n.SchedulingEligibility + ", drain " + strconv.FormatBool(n.DrainStrategy != nil)},
		{"Where", "datacenter " + n.Datacenter + ", pool " + n.NodePool},
		{"Drivers", strings.Join(drivers, ", ")},
		{"CSI plugins", strings.Join(plugins, ", ")},
	}}
	if n.StatusDescription != "" {
		c.facts = append(c.facts, [2]string{"Reason", n.StatusDescription})
	}
	c.sections = nonEmpty(allocSection("Allocations, newest first", list, true, now))
	return c
}
