package alloc

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Status is "nomad alloc status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list allocations, or show one", Args: "[<allocation>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "short", Usage: "show one line per task"},
			&cli.BoolFlag{Name: "stats", Usage: "show detailed resource usage"},
		},
		Run: find.ListOr(list, find.Alloc, Show),
	}.Command()
}

func list(ctx context.Context, s *session.Session) error {
	allocs, _, err := s.Allocs(ctx, rest.Query{})
	if err != nil {
		return session.Failed("querying allocations", err)
	}
	if s.Formatted() {
		return s.Document(allocs)
	}
	s.Print(rows.Allocs(allocs, s.Verbose, time.Now()))
	return nil
}

// Show prints one allocation.
func Show(ctx context.Context, s *session.Session, stub *api.AllocStub) error {
	s.Client = s.In(stub.Namespace)
	a, _, err := s.Alloc(ctx, stub.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying allocation", err)
	}
	if s.Formatted() {
		return s.Document(a)
	}
	s.Print(view.Pairs(facts(s, a)...))
	if s.Bool("short") {
		showShort(s, a)
		return nil
	}
	showAddresses(s, a)
	var used *api.AllocResourceUsage
	if a.ClientStatus == api.AllocClientStatusRunning {
		if used, err = s.AllocStats(ctx, a.ID); err != nil {
			s.Warnf("Could not read the resource usage: %s", err)
		}
	}
	showChecks(ctx, s, a)
	for _, t := range taskNames(a) {
		showTask(ctx, s, a, t, used)
	}
	if len(a.PreemptedAllocations) > 0 {
		s.Titled("Preempted Allocations", view.List(preempted(ctx, s, a)))
	}
	if text := rows.Metrics(a.Metrics, true); s.Verbose && text != "" {
		s.Titled("Placement Metrics", text)
	}
	return s.Page(ctx, "allocation", "allocations", a.ID)
}

// preemptedMax bounds how many allocations are looked up.
const preemptedMax = 20

// preempted are the ids of what had to make room, with those that a pending allocation still waits for.
func preempted(ctx context.Context, s *session.Session, a *api.Allocation) []string {
	out := make([]string, len(a.PreemptedAllocations))
	for i, id := range a.PreemptedAllocations {
		out[i] = s.ID(id)
		if a.ClientStatus != api.AllocClientStatusPending || i >= preemptedMax {
			continue
		}
		old, _, err := s.Alloc(ctx, id, rest.Query{})
		if err == nil && !old.ClientTerminal() {
			out[i] += " of job " + old.JobID + " (" + old.ClientStatus + "): this allocation starts when it has stopped"
		}
	}
	return out
}
