package deployment

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/session"
)

// steering is a verb that changes one deployment.
type steering struct {
	name, usage string
	flags       []cli.Flag
	doing, done string
	change      func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error)
	ends        bool // the verb ends the deployment
}

func (v steering) command() *cli.Command {
	return session.Verb{
		Name: v.name, Usage: v.usage, Args: "<deployment>", Min: 1, Max: 1,
		Flags: append([]cli.Flag{session.Verbose()}, v.flags...), Run: v.run,
	}.Command()
}

func (v steering) run(ctx context.Context, s *session.Session) error {
	d, err := find.Deployment(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	s.Client = s.In(d.Namespace)
	out, err := v.change(ctx, s, d.ID)
	if err != nil {
		return session.Failed(v.doing, err)
	}
	s.Printf("Deployment %q %s\n", s.ID(d.ID), v.done)
	if out.RevertedJobVersion != nil {
		s.Printf("Job %q was reverted to version %d\n", d.JobID, *out.RevertedJobVersion)
	}
	return After(ctx, s, out, v.ends && out.RevertedJobVersion == nil)
}

// After watches what a change of a deployment leads to; when the deployment has ended, only the evaluation.
func After(ctx context.Context, s *session.Session, out *api.DeploymentUpdateResponse, ends bool) error {
	if out.EvalID == "" {
		return nil
	}
	if s.Bool("detach") {
		s.Println("Evaluation ID:", out.EvalID)
		return nil
	}
	s.Println()
	if ends {
		return monitor.EvalOnly(ctx, s, out.EvalID)
	}
	return monitor.Eval(ctx, s, out.EvalID)
}

// GroupFlag names groups to promote.
func GroupFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "group", Usage: "only this `group`; may be repeated"}
}

// Promote is "nomad deployment promote".
func Promote(name string) *cli.Command {
	return steering{
		name: name, usage: "promote the canaries of a deployment", flags: []cli.Flag{session.Detach(), GroupFlag()},
		doing: "promoting deployment", done: "promoted",
		change: func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error) {
			return s.PromoteDeployment(ctx, id, s.Strings("group")...)
		},
	}.command()
}

// Fail is "nomad deployment fail".
func Fail(name string) *cli.Command {
	return steering{
		name: name, usage: "give a deployment up; a job with auto_revert goes back", flags: []cli.Flag{session.Detach()},
		doing: "failing deployment", done: "failed", ends: true,
		change: func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error) {
			return s.FailDeployment(ctx, id)
		},
	}.command()
}

// Pause is "nomad deployment pause".
func Pause(name string) *cli.Command {
	return steering{
		name: name, usage: "stop placing new allocations of a deployment", doing: "pausing deployment", done: "paused", ends: true,
		change: func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error) {
			return s.PauseDeployment(ctx, id, true)
		},
	}.command()
}

// Resume is "nomad deployment resume".
func Resume(name string) *cli.Command {
	return steering{
		name: name, usage: "let a paused deployment go on", flags: []cli.Flag{session.Detach()}, doing: "resuming deployment", done: "resumed",
		change: func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error) {
			return s.PauseDeployment(ctx, id, false)
		},
	}.command()
}

// Unblock is "nomad deployment unblock".
func Unblock(name string) *cli.Command {
	return steering{
		name: name, usage: "let a deployment end that waits for other regions", flags: []cli.Flag{session.Detach()},
		doing: "unblocking deployment", done: "unblocked",
		change: func(ctx context.Context, s *session.Session, id string) (*api.DeploymentUpdateResponse, error) {
			return s.UnblockDeployment(ctx, id)
		},
	}.command()
}
