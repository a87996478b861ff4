package alloc

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Files is "nomad alloc fs".
func Files(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list or print files of an allocation", Args: "<allocation> [<path>]", Min: 1, Max: 2,
		Flags: append(endFlags(),
			session.Verbose(),
			&cli.BoolFlag{Name: "f", Usage: "follow the file: print what is written to it later"},
			&cli.BoolFlag{Name: "stat", Usage: "describe the file instead of printing it"},
			&cli.BoolFlag{Name: "H", Usage: "print sizes in bytes, for programs"},
			&cli.BoolFlag{Name: "job", Usage: "the argument is a job; any of its allocations is used"},
			&cli.StringFlag{Name: "group", Usage: "`name` of the group, with -job"}),
		Run: files,
	}.Command()
}

func files(ctx context.Context, s *session.Session) error {
	a, err := target(ctx, s)
	if err != nil {
		return err
	}
	path := "/" + strings.TrimPrefix(s.Arg(1), "/")
	info, err := s.FileInfo(ctx, a.ID, path)
	if err != nil {
		return session.Failed("reading file", err)
	}
	if !info.IsDir && !s.Bool("stat") {
		return contents(ctx, s, a.ID, path)
	}
	size := view.Bytes
	if s.Bool("H") {
		size = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	table := [][]string{{"Mode", "Size", "Modified Time", "Name"}}
	if !info.IsDir || s.Bool("stat") {
		s.Print(view.Table(table[0], []string{info.FileMode, size(info.Size), view.Time(info.ModTime), info.Name}))
		return nil
	}
	list, err := s.Files(ctx, a.ID, path)
	if err != nil {
		return session.Failed("listing files", err)
	}
	for _, f := range list {
		name := f.Name
		if f.IsDir {
			name += "/"
		}
		table = append(table, []string{f.FileMode, size(f.Size), view.Time(f.ModTime), name})
	}
	s.Print(view.Table(table...))
	return nil
}

// contents prints a file, or the part of it that the flags select.
func contents(ctx context.Context, s *session.Session, alloc, path string) error {
	var err error
	if s.Bool("f") || s.Bool("tail") || s.Int("n") >= 0 || s.Int64("c") >= 0 {
		err = part(ctx, s, func(ctx context.Context, p rest.FilePart) (io.ReadCloser, error) {
			p.Path = path
			return s.FileStream(ctx, alloc, p)
		}, s.Out)
	} else {
		err = s.File(ctx, alloc, path, s.Out)
	}
	if err != nil {
		return session.Failed("reading file", err)
	}
	return nil
}
