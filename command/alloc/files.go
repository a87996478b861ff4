package alloc

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Files is "nomad alloc fs".
func Files(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list or print files of an allocation", Args: "<allocation> [<path>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "stat", Usage: "describe the file instead of printing it"},
			&cli.BoolFlag{Name: "H", Usage: "print human-readable sizes"},
			&cli.BoolFlag{Name: "job", Usage: "the argument is a job; any of its allocations is used"},
			&cli.StringFlag{Name: "group", Usage: "`name` of the group, with -job"},
		},
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
		if err := s.File(ctx, a.ID, path, s.Out); err != nil {
			return session.Failed("reading file", err)
		}
		return nil
	}
	table := [][]string{{"Mode", "Size", "Modified Time", "Name"}}
	if !info.IsDir || s.Bool("stat") {
		s.Print(view.Table(table[0], []string{info.FileMode, view.Bytes(info.Size), view.Time(info.ModTime), info.Name}))
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
		table = append(table, []string{f.FileMode, view.Bytes(f.Size), view.Time(f.ModTime), name})
	}
	s.Print(view.Table(table...))
	return nil
}
