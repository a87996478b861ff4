package watch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/view"
)

// wideColumns puts the namespace behind the first column of lists of all namespaces.
func wideColumns(wide bool, cells []string, namespace string) []string {
	if !wide {
		return cells
	}
	return slices.Insert(cells, 1, namespace)
}

func jobList(list []*api.JobStub, wide bool, now time.Time) content {
	s := section{columns: wideColumns(wide, []string{"Job", "Type", "Status", "Running", "Waiting", "Failed", "Age", "Reason"}, "Namespace")}
	for _, j := range list {
		s.rows = append(s.rows, jobRow(j, wide, now))
	}
	return page(s, "no jobs: nomad job run starts one")
}

// page is the content of a list; an empty one says so.
func page(s section, empty string) content {
	if len(s.rows) == 0 {
		return content{empty: empty}
	}
	return content{sections: []section{s}}
}

func jobRow(j *api.JobStub, wide bool, now time.Time) row {
	n, reason, how := counts(j.JobSummary), j.StatusDescription, calm
	switch {
	case n.Queued > 0:
		reason, how = strconv.Itoa(n.Queued)+" not placed: enter shows why", waiting
	case n.Starting > 0:
		reason, how = strconv.Itoa(n.Starting)+" starting", waiting
	case j.JobSummary != nil && j.JobSummary.Children != nil && (j.Periodic || j.ParameterizedJob):
		c := j.JobSummary.Children
		reason = strconv.FormatInt(c.Running, 10) + " instances run, " + strconv.FormatInt(c.Pending, 10) + " wait, " + strconv.FormatInt(c.Dead, 10) + " have ended"
	case n.Lost+n.Unknown > 0:
		reason, how = strconv.Itoa(n.Lost+n.Unknown)+" lost or unknown", waiting
	}
	if n.Failed > 0 && j.Status != "dead" && n.Running == 0 {
		how = failing
	}
	cells := []string{
		j.ID, j.Type, find.JobStatus(j.Status, j.Stop), strconv.Itoa(n.Running), strconv.Itoa(n.Queued + n.Starting), strconv.Itoa(n.Failed + n.Lost),
		age(j.SubmitTime, now), reason,
	}
	return row{wideColumns(wide, cells, j.Namespace), place{kind: job, namespace: cmp.Or(j.Namespace, api.DefaultNamespace), id: j.ID}, how}
}

// counts adds up the groups of a summary.
func counts(s *api.JobSummary) (n api.TaskGroupSummary) {
	if s == nil {
		return n
	}
	for _, g := range s.Summary {
		n.Queued += g.Queued
		n.Starting += g.Starting
		n.Running += g.Running
		n.Complete += g.Complete
		n.Failed += g.Failed
		n.Lost += g.Lost
		n.Unknown += g.Unknown
	}
	return n
}

func allocList(list []*api.AllocStub, wide bool, now time.Time) content {
	return page(allocSection("", list, wide, now), "no allocations")
}

func allocSection(title string, list []*api.AllocStub, wide bool, now time.Time) section {
	s := section{title: title, columns: wideColumns(wide, []string{"Alloc", "Job", "Group", "Node", "Desired", "Status", "Age", "Reason"}, "Namespace")}
	for _, a := range list {
		text, how := allocReason(a)
		cells := []string{short(a.ID), a.JobID, a.TaskGroup, cmp.Or(a.NodeName, short(a.NodeID)), a.DesiredStatus, a.ClientStatus, age(a.CreateTime, now), text}
		s.rows = append(s.rows, row{wideColumns(wide, cells, a.Namespace), place{kind: alloc, namespace: a.Namespace, id: a.ID}, how})
	}
	return s
}

// allocReason is what an operator wants to know of an allocation: the last event of the task that needs attention most.
func allocReason(a *api.AllocStub) (string, mood) {
	how := calm
	switch a.ClientStatus {
	case api.AllocClientStatusFailed, api.AllocClientStatusLost, api.AllocClientStatusUnknown:
		how = failing
	case api.AllocClientStatusPending:
		how = waiting
	}
	var last *api.TaskEvent
	var of string
	troubled := false
	for _, name := range sortedKeys(a.TaskStates) {
		t := a.TaskStates[name]
		if t == nil || len(t.Events) == 0 {
			continue
		}
		troubled = troubled || t.Failed || t.Restarts > 0 || t.State != "running"
		e := t.Events[len(t.Events)-1]
		if e != nil && (last == nil || t.Failed || e.Time > last.Time) {
			last, of = e, name
		}
	}
	switch {
	case a.ClientStatus == api.AllocClientStatusRunning && !troubled:
		return "", how
	case last != nil && last.DisplayMessage != "":
		return of + ": " + last.Type + ": " + last.DisplayMessage, how
	case last != nil:
		return of + ": " + last.Type, how
	}
	return cmp.Or(a.ClientDescription, a.DesiredDescription), how
}

func nodeList(list []*api.NodeStub) content {
	s := section{columns: []string{"Node", "ID", "DC", "Pool", "Status", "Eligibility", "Drain", "Address", "Reason"}}
	for _, n := range list {
		how, drain, text := calm, "no", n.StatusDescription
		if n.Drain {
			drain, how = "yes", waiting
		}
		if n.Status != api.NodeStatusReady {
			how = failing
		}
		for _, name := range sortedKeys(n.Drivers) {
			if d := n.Drivers[name]; d != nil && d.Detected && !d.Healthy && text == "" {
				text, how = "driver "+name+": "+d.HealthDescription, max(how, waiting)
			}
		}
		s.rows = append(s.rows, row{
			[]string{n.Name, short(n.ID), n.Datacenter, n.NodePool, n.Status, n.SchedulingEligibility, drain, n.Address, text}, place{kind: node, id: n.ID}, how,
		})
	}
	return page(s, "no nodes")
}

func volumeList(list []*api.VolumeStub, details []*api.VolumeDetail, found []*api.StorageFinding, wide bool, now time.Time) content {
	s := section{columns: wideColumns(wide, []string{"Volume", "Plugin", "Claims", "Phase", "Holder", "Age", "Next or reason"}, "Namespace")}
	for i, v := range list {
		cells := []string{v.ID, v.PluginID, "0", "free", "", "", ""}
		how := calm
		if d := details[i]; d != nil {
			claims(cells, d, now)
		}
		if !v.Schedulable {
			how, cells[6] = waiting, "not schedulable: no healthy plugin"
		}
		// Findings are sorted, the most urgent first.
		at := slices.IndexFunc(found, func(f *api.StorageFinding) bool { return f.VolumeID == v.ID && f.Namespace == v.Namespace })
		if at >= 0 {
			how, cells[6] = severity(found[at]), cmp.Or(cells[6], next(found[at], now))
			if found[at].Severity != api.SeverityInfo {
				cells[6] = found[at].Text
			}
		}
		s.rows = append(s.rows, row{wideColumns(wide, cells, v.Namespace), place{kind: volume, namespace: v.Namespace, id: v.ID}, how})
	}
	return page(s, "no CSI volumes: nomad volume create makes one")
}

// claims fills the cells of who holds a volume: the claim that is not ready, or the first one.
func claims(cells []string, d *api.VolumeDetail, now time.Time) {
	if len(d.Claims) == 0 {
		if len(d.Attachments) > 0 {
			a := d.Attachments[0]
			cells[3], cells[4], cells[5], cells[6] = string(a.State), "node "+short(a.NodeID), age(a.Since, now), retry(a.LastError, a.NextRetry, now)
		}
		return
	}
	c := d.Claims[0]
	if at := slices.IndexFunc(d.Claims, func(c *api.VolumeClaim) bool { return c.State != api.ClaimReady }); at >= 0 {
		c = d.Claims[at]
	}
	cells[2], cells[3], cells[4], cells[5] = strconv.Itoa(len(d.Claims)), phase(c), c.JobID+" "+short(c.AllocID), age(c.Since, now)
	cells[6] = retry(c.LastError, c.NextRetry, now)
}

// phase is the state of a claim and for whom it waits.
func phase(c *api.VolumeClaim) string {
	if c.State == api.ClaimWaiting && c.Predecessor != "" {
		return string(c.State) + " for " + short(c.Predecessor)
	}
	return string(c.State)
}

func retry(text string, at int64, now time.Time) string {
	if at == 0 {
		return text
	}
	return strings.TrimSpace("next try " + view.Until(at, now) + "  " + text)
}

func next(f *api.StorageFinding, now time.Time) string {
	text := cmp.Or(f.Next, f.Text)
	if f.NextAt != 0 {
		text += " (" + view.Until(f.NextAt, now) + ")"
	}
	return text
}

func severity(f *api.StorageFinding) mood {
	switch f.Severity {
	case api.SeverityError:
		return failing
	case api.SeverityWarning:
		return waiting
	}
	return calm
}
