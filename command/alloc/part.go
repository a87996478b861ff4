package alloc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

const (
	// tailLines is how many lines -tail shows.
	tailLines = 10
	// endBytes is how much of the end of a text is requested first, per line and at least.
	endBytesPerLine = 120
	endBytesMin     = 4 << 10
)

// endFlags select the end of a log or file.
func endFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "tail", Usage: "print only the end"},
		&cli.IntFlag{Name: "n", Value: -1, Usage: "`lines` to print from the end"},
		&cli.Int64Flag{Name: "c", Value: -1, Usage: "`bytes` to print from the end"},
	}
}

// opener opens a part of a log or file.
type opener func(ctx context.Context, p rest.FilePart) (io.ReadCloser, error)

// part prints what the flags -f, -tail, -n and -c select.
func part(ctx context.Context, s *session.Session, open opener, out io.Writer) error {
	p := rest.FilePart{Follow: s.Bool("f"), Origin: api.OriginStart}
	lines, size := s.Int("n"), s.Int64("c")
	if s.Bool("tail") && lines < 0 && size < 0 {
		lines = tailLines
	}
	if lines >= 0 && size >= 0 {
		return fault.New(fault.Invalid, "-n and -c cannot be combined")
	}
	if lines >= 0 {
		text, err := end(ctx, open, lines)
		if err == nil && !p.Follow {
			_, err = out.Write(text)
		}
		if err != nil || !p.Follow {
			return err
		}
		size = int64(len(text))
	}
	if size >= 0 {
		p.Origin, p.Offset = api.OriginEnd, size
	}
	body, err := open(ctx, p)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err = io.Copy(out, body); ctx.Err() != nil {
		return nil // the user ends it
	}
	return err
}

// end is the last n lines as they are now: more of the end is read until they are in it.
func end(ctx context.Context, open opener, n int) ([]byte, error) {
	p := rest.FilePart{Origin: api.OriginEnd}
	for p.Offset = max(endBytesMin, int64(min(n, math.MaxInt32))*endBytesPerLine); ; p.Offset *= 4 {
		body, err := open(ctx, p)
		if err != nil {
			return nil, err
		}
		lines, seen, size, err := lastLines(body, n)
		_ = body.Close()
		if err != nil {
			return nil, err
		}
		if seen > n || size < p.Offset { // the first line that was read may have lost its beginning
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
