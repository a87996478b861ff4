package job

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// scaledBy is the message of scaling events that people cause.
const scaledBy = "scaled on the command line"

// Scale is "nomad job scale".
func Scale(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change the count of a group", Args: "<job> [<group>] <count>", Min: 2, Max: 3,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(),
			&cli.StringFlag{Name: "check-index", Usage: "scale only if the job's modify index is `index`"},
		},
		Run: scale,
	}.Command()
}

func scale(ctx context.Context, s *session.Session) error {
	text := s.Args[len(s.Args)-1]
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < 0 {
		return fault.New(fault.Invalid, "count %q is not a non-negative integer", text)
	}
	req := &api.JobScaleRequest{Count: &count, Message: scaledBy}
	if text := s.String("check-index"); text != "" {
		if req.JobModifyIndex, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fault.New(fault.Invalid, "-check-index %q is not an index", text)
		}
	}
	j, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	s.Client = s.In(j.Namespace)
	group := s.Arg(1)
	if len(s.Args) == 2 {
		if group, err = onlyGroup(ctx, s, j.ID); err != nil {
			return err
		}
	}
	req.Target = map[string]string{"Namespace": j.Namespace, "Job": j.ID, "Group": group}
	out, err := s.ScaleJob(ctx, j.ID, req)
	if err != nil {
		return session.Failed("submitting scaling request", err)
	}
	warn(s, out.Warnings)
	return follow(ctx, s, "Job scaling successful", out.EvalID)
}

// onlyGroup names the group of a job that has one.
func onlyGroup(ctx context.Context, s *session.Session, id string) (string, error) {
	status, err := s.JobScale(ctx, id)
	if err != nil {
		return "", session.Failed("querying scaling status", err)
	}
	groups := slices.Sorted(maps.Keys(status.TaskGroups))
	if len(groups) == 1 {
		return groups[0], nil
	}
	return "", fault.New(fault.Invalid, "job %q has several groups, specify one: %s", id, view.Inline(strings.Join(groups, ", ")))
}

// ScalingEvents is "nomad job scaling-events".
func ScalingEvents(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the scaling events of a job", Args: "<job>", Min: 1, Max: 1,
		Flags: []cli.Flag{session.Verbose()},
		Run:   ofJob(scalingEvents),
	}.Command()
}

// scaled is an event with its group.
type scaled struct {
	group string
	*api.ScalingEvent
}

func scalingEvents(ctx context.Context, s *session.Session, j *api.JobStub) error {
	status, err := s.JobScale(ctx, j.ID)
	if err != nil {
		return session.Failed("querying scaling events", err)
	}
	var events []scaled
	for name, g := range status.TaskGroups {
		for _, e := range g.Events {
			events = append(events, scaled{name, e})
		}
	}
	if len(events) == 0 {
		s.Println("No events found")
		return nil
	}
	slices.SortStableFunc(events, func(a, b scaled) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.group, b.group))
	})
	table := [][]string{{"Task Group", "Count", "PrevCount", "Date"}}
	if s.Verbose {
		table = [][]string{{"Task Group", "Count", "PrevCount", "Error", "Message", "Eval ID", "Date"}}
	}
	for _, e := range events {
		table = append(table, e.row(s.Verbose))
	}
	s.Print(view.Table(table...))
	return nil
}

func (e scaled) row(long bool) []string {
	count := "N/A"
	if e.Count != nil {
		count = strconv.FormatInt(*e.Count, 10)
	}
	row := []string{e.group, count, strconv.FormatInt(e.PreviousCount, 10)}
	if long {
		eval := ""
		if e.EvalID != nil {
			eval = *e.EvalID
		}
		row = append(row, strconv.FormatBool(e.Error), view.OrNone(e.Message), view.OrNone(eval))
	}
	return append(row, view.UnixTime(e.Time))
}
