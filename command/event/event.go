// Package event has the verbs of "nomad event".
package event

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad event".
func Group() *cli.Command {
	return session.Group("event", "follow the changes of the cluster", Stream("stream"))
}

// Stream is "nomad event stream".
func Stream(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print events as they happen",
		Description: "Prints one line per event: the raft index, topic, type, key and namespace. It runs until it is interrupted or the server ends the stream.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "topic", Usage: "print events of a `topic`, such as Job, or Job:example for one job; may be repeated; all topics without it"},
			&cli.Int64Flag{Name: "index", Usage: "begin with the buffered events of this raft `index`; the next change without it"},
			&cli.BoolFlag{Name: "json", Usage: "print each event with its object as one line of JSON"},
		},
		Run: stream,
	}.Command()
}

func stream(ctx context.Context, s *session.Session) error {
	if s.Int64("index") < 0 {
		return fault.New(fault.Invalid, "-index %d is negative", s.Int64("index"))
	}
	out := json.NewEncoder(s.Out)
	out.SetEscapeHTML(false)
	err := s.Events(ctx, s.Strings("topic"), rest.Query{Index: uint64(s.Int64("index"))}, func(line *api.Events) error {
		for _, e := range line.Events {
			if s.Bool("json") {
				if err := out.Encode(e); err != nil {
					return err
				}
				continue
			}
			namespace := e.Namespace
			if namespace == "" {
				namespace = "-"
			}
			s.Printf("%d %s %s %s %s\n", e.Index, e.Topic, e.Type, e.Key, namespace)
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil // interrupted
	}
	return session.Failed("following events", err)
}
