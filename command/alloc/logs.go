package alloc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

const (
	// tailLines is how many lines -tail shows.
	tailLines = 10
	// endBytes is how much of the end of a log is asked for first, per line and at least.
	endBytesPerLine = 120
	endBytesMin     = 4 << 10
)

// Logs is "nomad alloc logs".
func Logs(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print the output of a task", Args: "<allocation> [<task>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "stderr", Usage: "print stderr"},
			&cli.BoolFlag{Name: "stdout", Usage: "print stdout"},
			&cli.BoolFlag{Name: "f", Usage: "follow the output"},
			&cli.BoolFlag{Name: "tail", Usage: "print only the end"},
			&cli.IntFlag{Name: "n", Value: -1, Usage: "`lines` to print from the end"},
			&cli.Int64Flag{Name: "c", Value: -1, Usage: "`bytes` to print from the end"},
			&cli.StringFlag{Name: "task", Usage: "`name` of the task"},
			&cli.BoolFlag{Name: "job", Usage: "the argument is a job; any of its allocations is used"},
			&cli.StringFlag{Name: "group", Usage: "`name` of the group, with -job"},
		},
		Run: logs,
	}.Command()
}

func logs(ctx context.Context, s *session.Session) error {
	a, err := target(ctx, s)
	if err != nil {
		return err
	}
	t, err := task(s, a)
	if err != nil {
		return err
	}
	if s.Bool("stderr") && s.Bool("stdout") || s.Bool("f") && !s.Bool("stderr") && !s.Bool("stdout") {
		return both(ctx, s, a.ID, t)
	}
	kind := api.LogStdout
	if s.Bool("stderr") {
		kind = api.LogStderr
	}
	return show(ctx, s, a.ID, t, kind, s.Out)
}

// both prints stdout and stderr to our own streams, side by side when they are followed.
func both(ctx context.Context, s *session.Session, alloc, task string) error {
	if !s.Bool("f") {
		return errors.Join(show(ctx, s, alloc, task, api.LogStdout, s.Out), show(ctx, s, alloc, task, api.LogStderr, s.Err))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs [2]error
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = show(ctx, s, alloc, task, api.LogStdout, s.Out) })
	wait.Go(func() { errs[1] = show(ctx, s, alloc, task, api.LogStderr, s.Err) })
	wait.Wait()
	return errors.Join(errs[:]...)
}

func show(ctx context.Context, s *session.Session, alloc, task, kind string, out io.Writer) error {
	o := rest.LogOptions{Task: task, Kind: kind, Follow: s.Bool("f"), Origin: api.OriginStart}
	lines, size := s.Int("n"), s.Int64("c")
	if s.Bool("tail") && lines < 0 && size < 0 {
		lines = tailLines
	}
	if lines >= 0 && size >= 0 {
		return fault.New(fault.Invalid, "-n and -c cannot be combined")
	}
	if lines >= 0 {
		text, err := end(ctx, s, alloc, o, lines)
		if err == nil && !o.Follow {
			_, err = out.Write(text)
		}
		if err != nil {
			return session.Failed("reading logs", err)
		}
		if !o.Follow {
			return nil
		}
		size = int64(len(text))
	}
	if size >= 0 {
		o.Origin, o.Offset = api.OriginEnd, size
	}
	body, err := s.Logs(ctx, alloc, o)
	if err != nil {
		return session.Failed("reading logs", err)
	}
	defer body.Close()
	_, err = io.Copy(out, body)
	if err != nil && ctx.Err() == nil {
		return session.Failed("reading logs", err)
	}
	return nil
}

// end is the last n lines of a log as it is now: more of its end is read until they are in it.
func end(ctx context.Context, s *session.Session, alloc string, o rest.LogOptions, n int) ([]byte, error) {
	o.Follow, o.Origin = false, api.OriginEnd
	for o.Offset = max(endBytesMin, int64(min(n, math.MaxInt32))*endBytesPerLine); ; o.Offset *= 4 {
		body, err := s.Logs(ctx, alloc, o)
		if err != nil {
			return nil, err
		}
		lines, seen, size, err := lastLines(body, n)
		_ = body.Close()
		if err != nil {
			return nil, err
		}
		if seen > n || size < o.Offset { // the first line that was read may have lost its beginning
			return bytes.Join(lines, nil), nil
		}
	}
}

// lastLines keeps the last n lines, and counts the lines and bytes.
func lastLines(body io.Reader, n int) (lines [][]byte, seen int, size int64, err error) {
	for r := bufio.NewReader(body); ; {
		line, err := r.ReadBytes('\n')
		size += int64(len(line))
		if len(line) > 0 {
			if seen++; n > 0 {
				lines = append(lines[max(0, len(lines)-n+1):], line)
			}
		}
		if errors.Is(err, io.EOF) {
			return lines, seen, size, nil
		}
		if err != nil {
			return nil, seen, size, err
		}
	}
}
