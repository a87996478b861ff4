package job

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Run is "nomad job run".
func Run(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "register a job, or update it", Args: "<path>", Min: 1, Max: 1,
		Flags: slices.Concat(fileFlags(), []cli.Flag{
			session.Verbose(), session.Detach(), session.PageFlag(),
			&cli.BoolFlag{Name: "json", Usage: "the file is JSON"},
			&cli.BoolFlag{Name: "output", Usage: "print the job as JSON instead of registering it"},
			&cli.StringFlag{Name: "check-index", Usage: "register only if the job's modify index is `index`; 0 requires that the job does not exist"},
			&cli.IntFlag{Name: "eval-priority", Usage: "`priority` of the evaluation"},
			&cli.BoolFlag{Name: "preserve-counts", Usage: "keep the counts of existing groups"},
			&cli.BoolFlag{Name: "preserve-resources", Usage: "keep the resources of existing tasks"},
			&cli.BoolFlag{Name: "policy-override", Hidden: true},
		}),
		Run: run,
	}.Command()
}

func run(ctx context.Context, s *session.Session) error {
	src, err := readJob(s, s.Arg(0))
	if err != nil {
		return err
	}
	if s.Bool("output") {
		return view.JSON(s.Out, struct{ Job any }{src.output()})
	}
	req := &api.JobRegisterRequest{
		Job: src.job, Submission: src.submission, EvalPriority: s.Int("eval-priority"),
		PreserveCounts: s.Bool("preserve-counts"), PreserveResources: s.Bool("preserve-resources"),
		PolicyOverride: s.Bool("policy-override"),
	}
	if text := s.String("check-index"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "-check-index %q is not an index", text)
		}
		req.EnforceIndex, req.JobModifyIndex = true, n
	}
	s.Client = s.In(src.job.Namespace)
	live := s.Live("Submitting the job")
	out, err := s.RegisterJob(ctx, req)
	live.End()
	if err != nil {
		return session.Failed("submitting job", err)
	}
	warn(s, out.Warnings)
	if err := follow(ctx, s, "Job registration successful", out.EvalID); err != nil {
		return err
	}
	if src.job.Periodic != nil {
		s.Println("Next launch:", nextLaunch(src.job, time.Now()))
	}
	return s.Page(ctx, "job", "jobs", src.job.ID+"@"+cmp.Or(src.job.Namespace, api.DefaultNamespace))
}

func warn(s *session.Session, warnings string) {
	if warnings != "" {
		s.Print("Job Warnings:\n", view.Indent(strings.TrimRight(warnings, "\n"), 2), "\n\n")
	}
}

// follow watches the evaluation of a change, or only prints that the change is done. Changes of periodic and
// parameterized jobs have no evaluation.
func follow(ctx context.Context, s *session.Session, done, eval string) error {
	if eval == "" || s.Bool("detach") {
		s.Println(done)
		if eval != "" {
			s.Println("Evaluation ID:", eval)
		}
		return nil
	}
	return monitor.Eval(ctx, s, eval)
}
