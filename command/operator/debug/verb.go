package debug

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

const (
	// codePartial is the exit code when the archive is written and some files are incomplete.
	codePartial = 2
	// durationMax bounds how long a capture takes, and secondsMax is the longest profile that an agent takes.
	durationMax = 24 * time.Hour
	secondsMax  = time.Minute
	// intervalMin bounds how often the cluster is read.
	intervalMin = time.Second
	// standardMaxNodes is the default of -max-nodes.
	standardMaxNodes = 10
)

// Verb is "nomad operator debug".
func Verb(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an archive that describes the cluster and its agents, without secrets",
		Description: "The archive contains the state of the cluster at each interval, the logs of servers and nodes while the command\n" +
			"runs, profiles, and reports on volumes; index.html leads through it. A file that could not be captured contains the\n" +
			"error. Ctrl-C ends the capture and writes what there is. The exit code is 0 when everything was captured, 2 when\n" +
			"something is missing, and 1 when the command fails. With access control the token needs node:read, agent:write,\n" +
			"operator:read, and read access to namespaces and plugins; a management token has all.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "duration", Value: "5m", Usage: "`time` of the capture"},
			&cli.StringFlag{Name: "interval", Value: "30s", Usage: "`time` between two captures of the state"},
			&cli.StringFlag{Name: "log-level", Value: "TRACE", Usage: "least `level` of captured log lines: trace, debug, info, warn or error"},
			&cli.BoolFlag{Name: "log-include-location", Value: true, Usage: "capture where in the source a line is written"},
			&cli.BoolFlag{Name: "log-file-export", Usage: "include the log files of the agents"},
			&cli.StringFlag{Name: "log-lookback", Usage: "include the journal of the agents of the last `time`"},
			&cli.StringFlag{Name: "server-id", Value: "all", Usage: "comma-separated `servers` by name or id, leader, or all"},
			&cli.StringFlag{Name: "node-id", Value: "all", Usage: "comma-separated `nodes` by the begin of their ids, or all"},
			&cli.StringFlag{Name: "node-class", Usage: "only nodes of a `class`"},
			&cli.IntFlag{Name: "max-nodes", Value: standardMaxNodes, Usage: "at most a `number` of nodes; 0 is no limit"},
			&cli.StringFlag{Name: "pprof-duration", Value: "1s", Usage: "`time` for which processors are profiled and traced; 0 takes no profiles"},
			&cli.StringFlag{Name: "pprof-interval", Value: "30s", Usage: "`time` between two profiles; 0 takes them once"},
			&cli.StringFlag{Name: "event-topic", Value: "none", Usage: "comma-separated `topics` of events to capture, such as Job:example, or all"},
			&cli.Int64Flag{Name: "event-index", Usage: "begin with the buffered events of this raft `index`"},
			&cli.StringFlag{Name: "output", Usage: "`folder` in which a folder of files is written instead of an archive"},
			&cli.BoolFlag{Name: "stale", Usage: "allow any server to respond; the result may be stale"},
			session.Verbose(),
		},
		Run: run,
	}.Command()
}

// options are the checked flags.
type options struct {
	duration, interval, profile, profileEvery time.Duration
	level                                     string
	location, logFile, stale                  bool
	lookback                                  time.Duration
	servers, nodes, topics                    []string
	class                                     string
	maxNodes                                  int
	eventIndex                                uint64
	output                                    string
}

func parse(s *session.Session) (*options, error) {
	o := &options{
		level: strings.ToLower(s.String("log-level")), location: s.Bool("log-include-location"), logFile: s.Bool("log-file-export"),
		stale: s.Bool("stale"), servers: list(s.String("server-id")), nodes: list(s.String("node-id")), class: s.String("node-class"),
		maxNodes: s.Int("max-nodes"), output: s.String("output"),
	}
	for _, d := range []struct {
		flag     string
		to       *time.Duration
		min, max time.Duration
	}{
		{"duration", &o.duration, intervalMin, durationMax},
		{"interval", &o.interval, intervalMin, durationMax},
		{"pprof-duration", &o.profile, 0, secondsMax},
		{"pprof-interval", &o.profileEvery, 0, durationMax},
		{"log-lookback", &o.lookback, 0, 366 * durationMax},
	} {
		text := s.String(d.flag)
		if text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(text); err != nil {
			return nil, fault.New(fault.Invalid, "-%s %.40q is not a duration such as 30s", d.flag, text)
		}
		if *d.to < d.min || *d.to > d.max {
			return nil, fault.New(fault.Invalid, "-%s is %s: %s to %s are possible", d.flag, text, d.min, d.max)
		}
	}
	switch o.level {
	case "trace", "debug", "info", "warn", "error":
	default:
		return nil, fault.New(fault.Invalid, "-log-level %.40q is not one of trace, debug, info, warn, error", o.level)
	}
	if o.interval > o.duration {
		return nil, fault.New(fault.Invalid, "-interval %s is longer than -duration %s", o.interval, o.duration)
	}
	if o.maxNodes < 0 || s.Int64("event-index") < 0 {
		return nil, fault.New(fault.Invalid, "-max-nodes and -event-index must not be negative")
	}
	o.eventIndex = uint64(s.Int64("event-index"))
	switch topics := list(s.String("event-topic")); {
	case len(topics) == 1 && (topics[0] == "all" || topics[0] == "*"):
		o.topics = []string{"*"}
	case len(topics) != 1 || topics[0] != "none":
		o.topics = topics
	}
	return o, nil
}

func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func run(ctx context.Context, s *session.Session) error {
	o, err := parse(s)
	if err != nil {
		return err
	}
	name := "nomad-debug-" + time.Now().UTC().Format("2006-01-02-150405") + "Z"
	parent := cmp.Or(o.output, ".")
	if o.output != "" {
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return fmt.Errorf("output folder: %w", err)
		}
	}
	// The files are collected next to the archive, where there is space for both.
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("folder of the capture: %w", err)
	}
	if o.output == "" {
		defer os.RemoveAll(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("folder of the capture: %w", err)
	}
	defer root.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := newCapture(s, o, root, name)
	if err := c.run(ctx); err != nil {
		if o.output != "" {
			_ = os.RemoveAll(dir)
		}
		return err
	}
	stop() // another signal ends the command
	c.interrupted = ctx.Err() != nil && c.interrupted
	if err := c.index(); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	result := dir
	if o.output == "" {
		result = name + ".tar.gz"
		if err := pack(root, name, result); err != nil {
			return fmt.Errorf("write %s: %w", result, err)
		}
		s.Printf("Created debug archive: %s\n", result)
	} else {
		s.Printf("Created debug folder: %s\n", result)
	}
	return c.result()
}

func (c *capture) result() error {
	n := len(c.failures)
	switch {
	case c.interrupted:
		c.s.Warnf("The capture was interrupted; the archive contains what was captured until then.")
	case n == 0:
		return nil
	}
	for i, f := range c.failures {
		if i == 10 && !c.s.Verbose {
			c.s.Warnf("... and %d more; index.html lists all, -verbose prints all", n-i)
			break
		}
		c.s.Warnf("Not captured: %s: %s", f.Path, view.Line(f.Error))
	}
	return &session.Exit{Code: codePartial}
}
