package session

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/view"
)

// Help prints what a command is for and which flags and commands it has.
func Help(w io.Writer, c *cli.Command) {
	usage := c.FullName()
	if len(c.Commands) > 0 {
		usage += " <command>"
	}
	if len(c.Flags) > 0 {
		usage += " [options]"
	}
	if c.ArgsUsage != "" {
		usage += " " + c.ArgsUsage
	}
	fmt.Fprintf(w, "Usage: %s\n\n  %s\n", usage, capital(c.Usage))
	if c.Description != "" {
		fmt.Fprintf(w, "\n%s\n", view.Indent(strings.TrimRight(c.Description, "\n"), 2))
	}
	var rows [][]string
	for _, sub := range c.Commands {
		if !sub.Hidden {
			rows = append(rows, []string{sub.Name, sub.Usage})
		}
	}
	section(w, "Commands", rows)
	own, general := flagRows(c)
	section(w, "Options", own)
	section(w, "General options", general)
}

func section(w io.Writer, title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	fmt.Fprintf(w, "\n%s:\n%s", title, view.Indent(view.Table(rows...), 2))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// flagRows lists the flags of a command with one dash, its own apart from the general ones.
func flagRows(c *cli.Command) (own, general [][]string) {
	for _, f := range c.Flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		names := f.Names()
		for i, n := range names {
			names[i] = "-" + n
		}
		spelling := strings.Join(names, ", ")
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		placeholder, usage := unquote(doc.GetUsage())
		if doc.TakesValue() {
			spelling += " <" + placeholder + ">"
		}
		row := []string{spelling, usage}
		if isGeneral(f.Names()[0]) {
			general = append(general, row)
		} else {
			own = append(own, row)
		}
	}
	return own, general
}

// unquote takes the value's name out of "a `name` in backquotes".
func unquote(usage string) (placeholder, plain string) {
	before, rest, ok := strings.Cut(usage, "`")
	name, after, ok2 := strings.Cut(rest, "`")
	if !ok || !ok2 {
		return "value", usage
	}
	return name, before + name + after
}
