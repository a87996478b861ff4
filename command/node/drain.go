package node

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// drainDeadline is how long allocations may take to move unless it is said.
const drainDeadline = time.Hour

// Drain is "nomad node drain".
func Drain(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "move all allocations away from a node", Args: "[<node>]", Max: 1,
		Flags: []cli.Flag{
			session.Detach(),
			&cli.BoolFlag{Name: "enable", Usage: "start the drain"},
			&cli.BoolFlag{Name: "disable", Usage: "end the drain"},
			&cli.BoolFlag{Name: "monitor", Usage: "watch a drain that is in progress"},
			&cli.StringFlag{Name: "deadline", Usage: "`duration` after which the remaining allocations are stopped; default 1h"},
			&cli.BoolFlag{Name: "no-deadline", Usage: "do not stop the remaining allocations after a deadline"},
			&cli.BoolFlag{Name: "force", Usage: "stop all allocations immediately"},
			&cli.BoolFlag{Name: "ignore-system", Usage: "leave system jobs running"},
			&cli.BoolFlag{Name: "keep-ineligible", Usage: "keep the node ineligible after -disable"},
			&cli.BoolFlag{Name: "self", Usage: "use the node of the contacted agent"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask for confirmation"},
			&cli.StringFlag{Name: "m", Usage: "`message` to record"},
			&cli.StringSliceFlag{Name: "meta", Usage: "`key=value` to record; may be repeated"},
		},
		Run: drain,
	}.Command()
}

func drain(ctx context.Context, s *session.Session) error {
	if !s.Bool("monitor") && s.Bool("enable") == s.Bool("disable") {
		return fault.New(fault.Invalid, "use one of -enable, -disable and -monitor")
	}
	id, err := target(ctx, s)
	if err != nil {
		return err
	}
	if s.Bool("monitor") && (s.Bool("detach") || s.Bool("enable") || s.Bool("disable")) {
		return fault.New(fault.Invalid, "-monitor cannot be combined with -enable, -disable or -detach")
	}
	if s.Bool("monitor") {
		return watch(ctx, s, id, 0)
	}
	meta, err := s.KeyValues("meta")
	if err != nil {
		return err
	}
	if m := s.String("m"); m != "" {
		if meta == nil {
			meta = map[string]string{}
		}
		meta["message"] = m
	}
	var spec *api.DrainSpec
	if s.Bool("enable") {
		if spec, err = drainSpec(s); err != nil {
			return err
		}
	}
	if sure, err := confirmed(s, id); err != nil || !sure {
		return err
	}
	out, err := s.Drain(ctx, id, spec, s.Bool("disable") && !s.Bool("keep-ineligible"), meta)
	if err != nil {
		return session.Failed("updating drain specification", err)
	}
	if spec == nil {
		s.Printf("Node %q drain strategy unset\n", id)
		return nil
	}
	if s.Bool("detach") {
		s.Printf("Node %q drain strategy set\n", id)
		return nil
	}
	s.Printf("%s: Ctrl-C to stop monitoring: will not cancel the node drain\nNode %q drain strategy set\n", view.Time(time.Now()), id)
	return watch(ctx, s, id, out.NodeModifyIndex)
}

// confirmed asks before another node than the one that was spelled out is touched.
func confirmed(s *session.Session, id string) (bool, error) {
	if s.Bool("self") || s.Arg(0) == id {
		return true, nil
	}
	verb := "disable"
	if s.Bool("enable") {
		verb = "enable"
	}
	return s.Sure(fmt.Sprintf("Are you sure you want to %s drain mode for node %q?", verb, id), "Canceling drain toggle")
}

func drainSpec(s *session.Session) (*api.DrainSpec, error) {
	spec := &api.DrainSpec{Deadline: drainDeadline, IgnoreSystemJobs: s.Bool("ignore-system")}
	switch {
	case s.Bool("force") && s.Bool("no-deadline"), s.Bool("no-deadline") && s.IsSet("deadline"), s.Bool("force") && s.IsSet("deadline"):
		return nil, fault.New(fault.Invalid, "-force, -deadline and -no-deadline cannot be combined")
	case s.Bool("force"):
		spec.Deadline = -time.Second
	case s.Bool("no-deadline"):
		spec.Deadline = 0
	case s.IsSet("deadline"):
		d, err := time.ParseDuration(s.String("deadline"))
		if err != nil || d <= 0 {
			return nil, fault.New(fault.Invalid, "-deadline %q is not a positive duration such as 30m", s.String("deadline"))
		}
		spec.Deadline = d
	}
	return spec, nil
}

// watch shows how allocations leave, and what the drain waits for, until the drain has ended.
func watch(ctx context.Context, s *session.Session, id string, index uint64) error {
	live := s.Live("Draining node " + s.ID(id))
	defer live.End()
	status, seen := map[string]string{}, index
	for {
		n, meta, err := s.Node(ctx, id, rest.Query{Index: index, Wait: 2 * time.Second})
		if err != nil {
			return session.Failed("monitoring drain", err)
		}
		index = meta.Index
		for _, e := range n.Events {
			if e.Subsystem == api.NodeEventSubsystemDrain && e.CreateIndex > seen && n.DrainStrategy != nil {
				s.Printf("%s: %s\n", view.Time(e.Timestamp), e.Message)
				seen = e.CreateIndex
			}
		}
		allocs, _, err := s.NodeAllocations(ctx, id, rest.Query{})
		if err != nil {
			return session.Failed("monitoring drain", err)
		}
		for _, a := range allocs {
			now := fmt.Sprintf("%s, desired %s", a.ClientStatus, a.DesiredStatus)
			if before, ok := status[a.ID]; ok && before != now {
				s.Printf("%s: Alloc %q is %s\n", view.Time(time.Now()), s.ID(a.ID), now)
			}
			status[a.ID] = now
		}
		if n.DrainStrategy == nil {
			s.Printf("%s: No drain strategy set for node %s: the drain has ended\n", view.Time(time.Now()), id)
			return nil
		}
	}
}
