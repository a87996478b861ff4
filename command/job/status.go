package job

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Status is "nomad job status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list jobs, or show one", Args: "[<job>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "short", Usage: "show basic information only"},
			&cli.BoolFlag{Name: "evals", Usage: "show evaluations"},
			&cli.BoolFlag{Name: "all-allocs", Usage: "include allocations of earlier jobs with this ID"},
		},
		Run: find.ListOr(List, find.Job, Show),
	}.Command()
}

// List prints all jobs of the session's namespace.
func List(ctx context.Context, s *session.Session) error {
	jobs, _, err := s.Jobs(ctx, rest.Query{})
	if err != nil {
		return session.Failed("querying jobs", err)
	}
	if s.Formatted() {
		return s.Document(jobs)
	}
	if len(jobs) == 0 {
		s.Println("No running jobs")
		return nil
	}
	all := s.Namespace() == api.AllNamespaces
	head := []string{"ID", "Type", "Priority", "Status", "Submit Date"}
	if all {
		head = slices.Insert(head, 1, "Namespace")
	}
	table := [][]string{head}
	for _, j := range jobs {
		kind := j.Type
		if j.Periodic {
			kind += "/periodic"
		}
		if j.ParameterizedJob {
			kind += "/parameterized"
		}
		row := []string{j.ID, kind, strconv.Itoa(j.Priority), find.JobStatus(j.Status, j.Stop), view.UnixTime(j.SubmitTime)}
		if all {
			row = slices.Insert(row, 1, j.Namespace)
		}
		table = append(table, row)
	}
	s.Print(view.Table(table...))
	return nil
}

// Show prints one job.
func Show(ctx context.Context, s *session.Session, stub *api.JobStub) error {
	s.Client = s.In(stub.Namespace)
	j, _, err := s.Job(ctx, stub.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying job", err)
	}
	if s.Formatted() {
		return document(ctx, s, j)
	}
	s.Print(view.Pairs(facts(j)...))
	if s.Bool("short") {
		return nil
	}
	if parent(j) {
		return showChildren(ctx, s, j)
	}
	if err := summary(ctx, s, j); err != nil {
		return err
	}
	if err := evaluations(ctx, s, j); err != nil {
		return err
	}
	d, err := s.JobDeployment(ctx, j.ID)
	if err != nil {
		return session.Failed("querying latest job deployment", err)
	}
	if d != nil {
		s.Titled("Latest Deployment", rows.Deployment(d, s.Verbose))
	}
	allocs, _, err := s.JobAllocations(ctx, j.ID, s.Bool("all-allocs"), rest.Query{})
	if err != nil {
		return session.Failed("querying job allocations", err)
	}
	s.Titled("Allocations", rows.Allocs(allocs, s.Verbose, time.Now()))
	return s.Page(ctx, "job", "jobs", j.ID+"@"+j.Namespace)
}

func facts(j *api.Job) [][2]string {
	pairs := [][2]string{
		{"ID", j.ID},
		{"Name", j.Name},
		{"Submit Date", view.UnixTime(j.SubmitTime)},
		{"Type", j.Type},
		{"Priority", strconv.Itoa(j.Priority)},
		{"Datacenters", strings.Join(j.Datacenters, ",")},
		{"Namespace", j.Namespace},
		{"Node Pool", j.NodePool},
		{"Status", find.JobStatus(j.Status, j.Stop)},
		{"Periodic", strconv.FormatBool(j.Periodic != nil)},
		{"Parameterized", strconv.FormatBool(j.ParameterizedJob != nil)},
	}
	if j.ParentID != "" {
		pairs = append(pairs, [2]string{"Parent Job", j.ParentID})
	}
	if t := j.VersionTag; t != nil {
		pairs = append(pairs, [2]string{"Version Tag", t.Name})
	}
	if j.Periodic != nil {
		pairs = append(pairs, [2]string{"Next Periodic Launch", nextLaunch(j, time.Now())})
	}
	return pairs
}
