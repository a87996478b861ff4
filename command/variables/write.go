package variables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

const checkIndex = "check-index"

// Put is "nomad var put".
func Put(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create or update a variable", Args: "[<path>] [<@file, - for stdin>] [<key>=<value>]...", Min: 1, Max: -1,
		Description: "Items of arguments replace those of the file; the variable has no others afterwards. A value @file is read from\n" +
			"the file and - from stdin; write \\@ or \\- for a value that begins with one of them. Without -force the variable must have the index\n" +
			"of -check-index, by default the modify index of the file; 0 means that it must not exist.\n\n" +
			"  nomad var put nomad/jobs/web/db password=@secret.txt\n" +
			"  nomad var get -out hcl app/x > x.hcl; edit x.hcl; nomad var put @x.hcl",
		Flags: append(outputs("none", "none", "table", "hcl", "json", "go-template"),
			&cli.StringFlag{Name: "in", Usage: "`format` of the file: hcl, json; found out by default"},
			&cli.StringFlag{Name: checkIndex, Usage: "write only if the variable has this modify `index`; 0: if it does not exist"},
			&cli.BoolFlag{Name: "force", Usage: "write whatever the index is"},
			session.Verbose()),
		Run: put,
	}.Command()
}

func put(ctx context.Context, s *session.Session) error {
	out, err := format(s, "none", "table", "hcl", "json", "go-template")
	if err != nil {
		return err
	}
	in := s.String("in")
	if in != "" && in != "hcl" && in != "json" {
		return fault.New(fault.Invalid, "-in %q: expected hcl or json", in)
	}
	index, err := checked(s)
	if err != nil {
		return err
	}
	if s.Bool("force") && index != nil {
		return fault.New(fault.Invalid, "-force and -%s cannot be combined", checkIndex)
	}
	from := &reader{s: s}
	v, rest, err := from.variable(s.Args, in == "json")
	if err == nil {
		err = from.pairs(v, rest)
	}
	if err != nil {
		return err
	}
	if len(v.Items) == 0 {
		return fault.New(fault.Invalid, "variable %q needs at least one item: add key=value", v.Path)
	}
	if index == nil && !s.Bool("force") {
		index = &v.ModifyIndex
	}
	stored, err := s.PutVariable(ctx, v, index)
	if err != nil {
		return refused("creating variable", v, index, err)
	}
	if out != "none" {
		if err := show(s, stored, out); err != nil {
			return err
		}
		return page(ctx, s, stored, out)
	}
	done := "Updated"
	if stored.CreateIndex == stored.ModifyIndex {
		done = "Created"
	}
	s.Printf("%s variable %q with modify index %d\n", done, stored.Path, stored.ModifyIndex)
	return page(ctx, s, stored, out)
}

// checked is the index of -check-index; nil without one.
func checked(s *session.Session) (*uint64, error) {
	if !s.IsSet(checkIndex) {
		return nil, nil
	}
	index, err := strconv.ParseUint(s.String(checkIndex), 10, 64)
	if err != nil {
		return nil, fault.New(fault.Invalid, "-%s %q is not an index", checkIndex, s.String(checkIndex))
	}
	return &index, nil
}

// Purge is "nomad var purge".
func Purge(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete a variable", Args: "<path>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.StringFlag{Name: checkIndex, Usage: "delete only if the variable has this modify `index`"}},
		Run: func(ctx context.Context, s *session.Session) error {
			index, err := checked(s)
			if err != nil {
				return err
			}
			if err := s.DeleteVariable(ctx, s.Arg(0), index); err != nil {
				return refused("purging variable", nil, index, err)
			}
			s.Printf("Successfully purged variable %q!\n", s.Arg(0))
			return nil
		},
	}.Command()
}

// refused is the error of a write. Of a conflict it has what changed, by the keys of the items, and the next step.
func refused(doing string, ours *api.Variable, index *uint64, err error) error {
	var c *rest.VariableConflict
	if !errors.As(err, &c) {
		return session.Failed(doing, err)
	}
	stored := c.Stored
	if index == nil || stored.Lock != nil || *index != 0 && stored.ModifyIndex == *index {
		return session.Failed(doing, fmt.Errorf("%w; it may be locked: only the holder of the lock can change it until the lock is released or expires", err))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Check-and-Set conflict\n\nThe check index of this command is %d, ", *index)
	if stored.ModifyIndex == 0 {
		b.WriteString("the variable has another index. It does not exist, it is locked, or the token may not read it.")
		return errors.New(b.String())
	}
	fmt.Fprintf(&b, "the variable has the index %d.\nIt was last updated at %s.\n", stored.ModifyIndex, view.UnixTime(stored.ModifyTime))
	force := ""
	if ours != nil {
		b.WriteString(changes(stored.Items, ours.Items))
		force = "-force or "
	}
	fmt.Fprintf(&b, "\nTo change it nevertheless, add %s-%s=%d before the arguments.", force, checkIndex, stored.ModifyIndex)
	return errors.New(b.String())
}

// changes names the items that differ between the stored variable and the written one, without their values.
func changes(stored, ours map[string]string) string {
	if len(stored) == 0 {
		return ""
	}
	all := maps.Clone(stored)
	maps.Copy(all, ours)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		old, was := stored[key]
		written, is := ours[key]
		switch {
		case !was:
			b.WriteString("  + " + view.Inline(key) + " would be added\n")
		case !is:
			b.WriteString("  - " + view.Inline(key) + " would be removed\n")
		case old != written:
			b.WriteString("  ~ " + view.Inline(key) + " has another value\n")
		}
	}
	return b.String()
}
