package job

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Exit codes of a plan.
const (
	planUnchanged = 0
	planChanged   = 1
	planFailed    = 255
)

// Plan is "nomad job plan".
func Plan(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show what registering a job would do; exits 0 for no change, 1 for changes, 255 for errors",
		Args: "<path>", Min: 1, Max: 1, BadUse: planFailed,
		Flags: slices.Concat(fileFlags(), []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "json", Usage: "the file is JSON"},
			&cli.BoolFlag{Name: "diff", Value: true, Usage: "show the differences from the registered job"},
			&cli.BoolFlag{Name: "json-output", Usage: "print the plan as JSON"},
			&cli.StringFlag{Name: "t", Usage: "print the plan through a Go `template`"},
			&cli.BoolFlag{Name: "policy-override", Hidden: true},
		}),
		Run: plan,
	}.Command()
}

func plan(ctx context.Context, s *session.Session) error {
	src, err := readJob(s, s.Arg(0))
	if err != nil {
		return &session.Exit{Code: planFailed, Text: err.Error()}
	}
	s.Client = s.In(src.job.Namespace)
	out, err := s.PlanJob(ctx, &api.JobPlanRequest{Job: src.job, Diff: true, PolicyOverride: s.Bool("policy-override")})
	if err != nil {
		return &session.Exit{Code: planFailed, Text: session.Failed("during plan", err).Error()}
	}
	switch {
	case s.Bool("json-output"):
		err = view.JSON(s.Out, out)
	case s.String("t") != "":
		err = view.Template(s.Out, s.String("t"), out)
	default:
		printPlan(s, out)
	}
	if err != nil {
		return &session.Exit{Code: planFailed, Text: err.Error()}
	}
	if out.Diff == nil || out.Diff.Type != "None" {
		return &session.Exit{Code: planChanged}
	}
	return nil
}

func printPlan(s *session.Session, out *api.JobPlanResponse) {
	if s.Bool("diff") && out.Diff != nil {
		var updates map[string]*api.DesiredUpdates
		if out.Annotations != nil {
			updates = out.Annotations.DesiredTGUpdates
		}
		s.Difference(diffText(out.Diff, updates) + "\n")
	}
	s.Println("Scheduler dry-run:")
	if len(out.FailedTGAllocs) == 0 {
		s.Println("- All tasks successfully allocated.")
	} else {
		s.Println("- WARNING: Failed to place all allocations.")
		s.Print(view.Indent(rows.Failures(out.FailedTGAllocs), 2))
	}
	if a := out.Annotations; a != nil && len(a.PreemptedAllocs) > 0 {
		s.Printf("- %s of other jobs would be preempted.\n\nPreemptions:\n%s\n", many(len(a.PreemptedAllocs)), preempted(s, a.PreemptedAllocs))
	}
	if !out.NextPeriodicLaunch.IsZero() {
		s.Println("- If submitted now, next periodic launch would be at", view.Time(out.NextPeriodicLaunch)+".")
	}
	s.Println()
	warn(s, out.Warnings)
	s.Printf("Job Modify Index: %d\n", out.JobModifyIndex)
	s.Printf("To submit the job with version verification run:\n\nnomad job run -check-index %d%s %s\n\n", out.JobModifyIndex, fileArguments(s), s.Arg(0))
	s.Print("With -check-index the job is registered only if its modify index is still this\n" +
		"one, so that the plan above still applies.\n")
}

// preempted lists the allocations that would have to go.
func preempted(s *session.Session, allocs []*api.AllocStub) string {
	table := [][]string{{"Alloc ID", "Job ID", "Task Group"}}
	for _, a := range allocs {
		table = append(table, []string{s.ID(a.ID), a.JobID, a.TaskGroup})
	}
	return view.Table(table...)
}

// fileArguments formats the flags that control how the file is read.
func fileArguments(s *session.Session) string {
	var b strings.Builder
	if s.Bool("json") {
		b.WriteString(" -json")
	}
	for _, flag := range []string{"var", "var-file"} {
		for _, v := range s.Strings(flag) {
			fmt.Fprintf(&b, " -%s=%q", flag, v)
		}
	}
	return b.String()
}
