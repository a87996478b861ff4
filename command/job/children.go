package job

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// parent reports whether a job only launches others.
func parent(j *api.Job) bool {
	return j.Periodic != nil || j.ParameterizedJob != nil && !j.Dispatched
}

// showChildren shows what a periodic or parameterized job asks for and what it launched.
func showChildren(ctx context.Context, s *session.Session, j *api.Job) error {
	title := "Previously Launched Jobs"
	if p := j.ParameterizedJob; p != nil {
		title = "Dispatched Jobs"
		s.Titled("Parameterized Job", view.Pairs(
			[2]string{"Payload", p.Payload},
			[2]string{"Required Metadata", strings.Join(p.MetaRequired, ", ")},
			[2]string{"Optional Metadata", strings.Join(p.MetaOptional, ", ")}))
	}
	sum, _, err := s.JobSummary(ctx, j.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying job summary", err)
	}
	if sum.Children != nil {
		s.Section(map[bool]string{true: "Parameterized Job Summary", false: "Children Job Summary"}[j.ParameterizedJob != nil],
			[]string{"Pending", "Running", "Dead"},
			[]string{strconv.FormatInt(sum.Children.Pending, 10), strconv.FormatInt(sum.Children.Running, 10), strconv.FormatInt(sum.Children.Dead, 10)})
	}
	all, _, err := s.Jobs(ctx, rest.Query{Prefix: j.ID + "/"})
	if err != nil {
		return session.Failed("querying child jobs", err)
	}
	all = slices.DeleteFunc(all, func(c *api.JobStub) bool { return c.ParentID != j.ID })
	if len(all) == 0 {
		s.Printf("\n%s\nNo instances of this job found\n", title)
		return nil
	}
	slices.SortStableFunc(all, func(a, b *api.JobStub) int { return cmp.Compare(a.SubmitTime, b.SubmitTime) })
	table := [][]string{{"ID", "Status", "Submit Date"}}
	for _, c := range all {
		table = append(table, []string{c.ID, find.JobStatus(c.Status, c.Stop), view.UnixTime(c.SubmitTime)})
	}
	s.Section(title, table...)
	return nil
}

// nextLaunch describes when a periodic job is launched next.
func nextLaunch(j *api.Job, now time.Time) string {
	if j.Stop || !j.Periodic.Enabled {
		return "none (the job is stopped or its schedule is not enabled)"
	}
	zone, err := time.LoadLocation(cmp.Or(j.Periodic.TimeZone, "UTC"))
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	specs := j.Periodic.Specs
	if j.Periodic.Spec != "" {
		specs = append([]string{j.Periodic.Spec}, specs...)
	}
	var next time.Time
	for _, text := range specs {
		e, err := cronexpr.Parse(text)
		if err != nil {
			return "unknown (" + err.Error() + ")"
		}
		if t := e.Next(now.In(zone)); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if next.IsZero() {
		return "never"
	}
	return view.Time(next) + " (" + view.Until(next.UnixNano(), now) + ")"
}
