package monitor

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Agent is "nomad monitor".
func Agent(name string) *cli.Command {
	c := session.Verb{
		Name: name, Usage: "print the log of an agent as it is written",
		Description: "Without -server-id and -node-id it is the log of the contacted agent. The level need not be that of the agent's own log.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "the least `level` of lines: trace, debug, info, warn or error"},
			&cli.StringFlag{Name: "server-id", Usage: "the `server` by its name or id, or leader"},
			&cli.StringFlag{Name: "node-id", Usage: "the `node` by the begin of its id"},
			&cli.BoolFlag{Name: "json", Usage: "print each line as JSON"},
			&cli.BoolFlag{Name: "log-include-location", Usage: "print where in the source a line is written"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			o := rest.MonitorOptions{
				ServerID: s.String("server-id"), Level: s.String("log-level"), JSON: s.Bool("json"), IncludeLocation: s.Bool("log-include-location"),
			}
			if id := s.String("node-id"); id != "" {
				n, err := find.Node(ctx, s, id)
				if err != nil {
					return err
				}
				o.NodeID = n.ID
			}
			body, err := s.Monitor(ctx, o)
			if err != nil {
				return session.Failed("reading the log", err)
			}
			return printLog(ctx, s, body)
		},
	}.Command()
	c.Commands = []*cli.Command{Export("export")}
	return c
}

// Export is "nomad monitor export".
func Export(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print the log that an agent has stored",
		Description: "Without -server-id and -node-id it is the log of the contacted agent. The log file is that of log_file in the\n" +
			"configuration of the agent; renamed files are left out.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "on-disk", Usage: "print the log file"},
			&cli.StringFlag{Name: "service-name", Usage: "print the journal of a systemd `unit` whose name contains nomad"},
			&cli.DurationFlag{Name: "logs-since", Usage: "`age` of the first line of the journal; 72h without it"},
			&cli.BoolFlag{Name: "follow", Usage: "continue with new lines of the journal"},
			&cli.StringFlag{Name: "server-id", Usage: "the `server` by its name or id, or leader"},
			&cli.StringFlag{Name: "node-id", Usage: "the `node` by the begin of its id"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			o := rest.ExportOptions{
				ServerID: s.String("server-id"), OnDisk: s.Bool("on-disk"), ServiceName: s.String("service-name"), Since: s.Duration("logs-since"), Follow: s.Bool("follow"),
			}
			switch {
			case o.OnDisk == (o.ServiceName != ""):
				return fault.New(fault.Invalid, "one of -on-disk and -service-name is needed")
			case o.OnDisk && (o.Follow || o.Since != 0):
				return fault.New(fault.Invalid, "-follow and -logs-since are for the journal: use -service-name in place of -on-disk")
			case o.Since < 0:
				return fault.New(fault.Invalid, "-logs-since must not be negative")
			}
			if id := s.String("node-id"); id != "" {
				n, err := find.Node(ctx, s, id)
				if err != nil {
					return err
				}
				o.NodeID = n.ID
			}
			body, err := s.MonitorExport(ctx, o)
			if err != nil {
				return session.Failed("reading the log", err)
			}
			return printLog(ctx, s, body)
		},
	}.Command()
}

// printLog prints the lines of a log until it ends.
func printLog(ctx context.Context, s *session.Session, body io.ReadCloser) error {
	defer body.Close()
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		s.Print(line)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return session.Failed("reading the log", err)
		}
	}
}
