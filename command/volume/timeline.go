package volume

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Timeline is "nomad volume timeline".
func Timeline(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list what happened to a volume: claims, attachments and calls of the driver", Args: "<volume>", Min: 1, Max: 1, Format: true,
		Description: "The servers keep the last 100 entries of a volume, until it is deleted or deregistered.",
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.IntFlag{Name: "n", Usage: "only the last `number` of entries"},
		},
		Run: timeline,
	}.Command()
}

func timeline(ctx context.Context, s *session.Session) error {
	if s.Int("n") < 0 {
		return fault.New(fault.Invalid, "-n must not be negative")
	}
	v, err := target(ctx, s)
	if err != nil {
		return err
	}
	q := rest.Query{}
	if n := s.Int("n"); n > 0 {
		q.Params = url.Values{"last": {strconv.Itoa(n)}}
	}
	events, _, err := s.VolumeTimeline(ctx, v.ID, q)
	if err != nil {
		return session.Failed("querying the timeline", err)
	}
	if s.Formatted() {
		return s.Document(events)
	}
	if len(events) == 0 {
		s.Println("No entries")
		return nil
	}
	table := [][]string{{"Time", "What", "Result", "Alloc ID", "Job ID", "Node ID", "After", "Took", "Text"}}
	for _, e := range events {
		table = append(table, row(s, e))
	}
	s.Print(view.Table(table...))
	return nil
}

func row(s *session.Session, e *api.VolumeEvent) []string {
	result := e.Result
	if e.Count > 1 {
		result += " (" + strconv.Itoa(e.Count) + " times)"
	}
	text := view.OrNone(short(s, e.Text))
	return []string{
		view.UnixTime(e.Time), e.What, result, view.OrNone(s.ID(e.AllocID)), view.OrNone(e.JobID), view.OrNone(s.ID(e.NodeID)),
		elapsed(e.After), elapsed(e.Took), text,
	}
}

// elapsed is a duration with about three digits; "-" when it is not known.
func elapsed(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
