package variables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

// Group is "nomad var".
func Group() *cli.Command {
	return session.Group("var", "store encrypted values and lock them",
		List("list"), Get("get"), Init("init"), Put("put"), Purge("purge"), Lock("lock"))
}

// outputs are the flags of a format. The standard one is printed without -out.
func outputs(standard string, formats ...string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Usage: "`format` of the output: " + strings.Join(formats, ", ") + "; by default " + standard},
		&cli.StringFlag{Name: "template", Usage: "print the output through a Go `template`, with -out go-template"},
		session.PageFlag(),
	}
}

// onTerminal describes the output of reads: programs get JSON.
const onTerminal = "table on a terminal and json elsewhere"

// format is the value of -out, which must be one of the formats; the first is that of terminals.
func format(s *session.Session, formats ...string) (string, error) {
	out := s.String("out")
	switch {
	case out != "":
	case s.String("template") != "":
		out = "go-template"
	case formats[0] == "table" && !s.Terminal() && !s.Bool("ui"):
		out = "json"
	default:
		out = formats[0]
	}
	for _, f := range formats {
		if f != out {
			continue
		}
		if (out == "go-template") != (s.String("template") != "") {
			return "", fault.New(fault.Invalid, "-out go-template and -template need each other")
		}
		if s.Bool("ui") && (out == "json" || out == "hcl" || out == "go-template") {
			return "", fault.New(fault.Invalid, "-ui cannot be combined with the output %s", out)
		}
		return out, nil
	}
	return "", fault.New(fault.Invalid, "-out %q: expected one of %s", out, strings.Join(formats, ", "))
}

// List is "nomad var list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list variables without their items", Args: "[<prefix>]", Max: 1,
		Flags: append(outputs(onTerminal, "table", "terse", "json", "go-template"),
			&cli.StringFlag{Name: "filter", Usage: "list only what matches the filter `expression`"},
			&cli.IntFlag{Name: "per-page", Usage: "number of `rows` per page"},
			&cli.StringFlag{Name: "page-token", Usage: "start at the page with this `token`"}),
		Run: list,
	}.Command()
}

func list(ctx context.Context, s *session.Session) error {
	out, err := format(s, "table", "terse", "json", "go-template")
	if err != nil {
		return err
	}
	found, meta, err := s.Variables(ctx, rest.Query{Prefix: s.Arg(0), Filter: s.String("filter"), PerPage: s.Int("per-page"), NextToken: s.String("page-token")})
	if err != nil {
		return session.Failed("retrieving vars", err)
	}
	switch {
	case out == "json":
		err = view.JSON(s.Out, found)
	case out == "go-template":
		err = view.Template(s.Out, s.String("template"), found)
	case out == "terse":
		for _, v := range found {
			s.Println(v.Path)
		}
	case len(found) == 0:
		s.Println("No variables found")
	default:
		table := [][]string{{"Namespace", "Path", "Last Updated"}}
		for _, v := range found {
			table = append(table, []string{v.Namespace, v.Path, view.UnixTime(v.ModifyTime)})
		}
		s.Print(view.Table(table...))
	}
	if err != nil {
		return err
	}
	if meta.NextToken != "" {
		s.Warnf("More results: nomad var list -page-token %s", view.Inline(meta.NextToken))
	}
	if out != "table" && !s.Bool("ui") {
		return nil
	}
	return s.Page(ctx, "variables", "variables")
}

// page opens or names the page of a variable where the output is for people.
func page(ctx context.Context, s *session.Session, v *api.Variable, out string) error {
	if out != "table" && !s.Bool("ui") {
		return nil
	}
	return s.Page(ctx, "variable", "variables", "var", v.Path+"@"+v.Namespace)
}

// Get is "nomad var get".
func Get(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "read a variable", Args: "<path>", Min: 1, Max: 1,
		Flags: append(outputs(onTerminal, "table", "hcl", "json", "none", "go-template"), &cli.StringFlag{Name: "item", Usage: "print only the value of the item with this `key`"}),
		Run: func(ctx context.Context, s *session.Session) error {
			out, err := format(s, "table", "hcl", "json", "none", "go-template")
			if err != nil {
				return err
			}
			if s.IsSet("item") && (s.IsSet("out") || s.IsSet("template") || s.Bool("ui")) {
				return fault.New(fault.Invalid, "-item cannot be combined with -out, -template and -ui")
			}
			v, err := s.Variable(ctx, s.Arg(0))
			if err != nil {
				return session.Failed("retrieving variable", err)
			}
			if s.IsSet("item") {
				return item(s, v, s.String("item"))
			}
			if err := show(s, v, out); err != nil {
				return err
			}
			return page(ctx, s, v, out)
		},
	}.Command()
}

// item prints a value. Only a terminal needs protection from it: a script gets it as it is.
func item(s *session.Session, v *api.Variable, key string) error {
	value, found := v.Items[key]
	if !found {
		return fault.New(fault.NotFound, "Variable does not contain item %q", key)
	}
	if s.Terminal() {
		value = view.Text(value)
	}
	_, err := fmt.Fprintln(s.Out, value)
	return err
}

// show prints a variable with its values, unless the format is none.
func show(s *session.Session, v *api.Variable, out string) error {
	switch out {
	case "none":
		return nil
	case "json":
		return view.JSON(s.Out, v)
	case "go-template":
		return view.Template(s.Out, s.String("template"), v)
	case "hcl":
		_, err := io.WriteString(s.Out, view.Text(hclOf(v)))
		return err
	}
	s.Print(view.Pairs([2]string{"Namespace", v.Namespace}, [2]string{"Path", v.Path}, [2]string{"Create Time", view.UnixTime(v.CreateTime)},
		[2]string{"Check Index", fmt.Sprint(v.ModifyIndex)}))
	s.Titled("Items", items(v.Items))
	return nil
}

// Init is "nomad var init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example variable file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`format` of the file: hcl, json; by default hcl"},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing"},
		},
		Run: func(_ context.Context, s *session.Session) error {
			out, err := format(s, "hcl", "json")
			if err != nil {
				return err
			}
			text := examples.Variable
			if out == "json" {
				text = examples.VariableJSON
			}
			path := s.Arg(0)
			if path == "" {
				path = "spec.nv." + out
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Conflict, "Variable file %q already exists", path)
			}
			if err != nil {
				return fault.New(fault.Invalid, "write %w", err)
			}
			if _, err := f.WriteString(text); err != nil {
				return errors.Join(err, f.Close())
			}
			if !s.Bool("quiet") {
				s.Println("Example variable specification written to", path)
			}
			return f.Close()
		},
	}.Command()
}
