package system

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad system".
func Group() *cli.Command {
	return session.Group("system", "act on the whole cluster", GC("gc"),
		session.Group("reconcile", "repair what is derived", Summaries("summaries")))
}

// GC is "nomad system gc".
func GC(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "run garbage collection",
		Run: func(ctx context.Context, s *session.Session) error {
			live := s.Live("Collecting garbage")
			err := s.GC(ctx)
			live.End()
			if err != nil {
				return session.Failed("running system garbage-collection", err)
			}
			return nil
		},
	}.Command()
}

// Summaries is "nomad system reconcile summaries".
func Summaries(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "recompute the summaries of all jobs",
		Run: func(ctx context.Context, s *session.Session) error {
			if err := s.ReconcileSummaries(ctx); err != nil {
				return session.Failed("running system summary reconciliation", err)
			}
			return nil
		},
	}.Command()
}
