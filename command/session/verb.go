package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
)

// Verb declares one command.
type Verb struct {
	Name  string
	Usage string
	// Description is the help text after the usage.
	Description string
	// Args names the arguments in help; Min and Max bound how many there are, Max < 0 is no bound.
	Args     string
	Min, Max int
	Flags    []cli.Flag
	// Format adds -json and -t.
	Format bool
	// Offline verbs talk to no agent and have no general flags.
	Offline bool
	// BadUse is the exit code of wrong flags and arguments; 0 means 1.
	BadUse int
	Hidden bool
	Run    func(ctx context.Context, s *Session) error
}

// Command makes the command.
func (v Verb) Command() *cli.Command {
	flags := append([]cli.Flag{}, v.Flags...)
	flags = append(flags, helpFlag())
	if v.Format {
		flags = append(flags,
			&cli.BoolFlag{Name: "json", Usage: "print the objects as JSON"},
			&cli.StringFlag{Name: "t", Usage: "print the objects through a Go `template`"})
	}
	if !v.Offline {
		flags = append(flags, generalFlags()...)
	}
	return &cli.Command{
		Name: v.Name, Usage: v.Usage, Description: v.Description, ArgsUsage: v.Args, Hidden: v.Hidden,
		Flags: flags, HideHelp: true, DisableSliceFlagSeparator: true,
		OnUsageError: func(_ context.Context, c *cli.Command, err error, _ bool) error { return v.misused(c, err.Error()) },
		Action:       v.act,
	}
}

func (v Verb) misused(c *cli.Command, text string) error {
	code := v.BadUse
	if code == 0 {
		code = 1
	}
	name := c.FullName()
	return &Exit{Code: code, Text: text + "\nFor additional help try '" + name + " -help'"}
}

func (v Verb) act(ctx context.Context, c *cli.Command) error {
	if c.Bool("help") {
		Help(c.Root().Writer, c)
		return nil
	}
	args := c.Args().Slice()
	if n := len(args); n < v.Min || (v.Max >= 0 && n > v.Max) {
		return v.misused(c, v.wanted(n))
	}
	root := c.Root()
	s := &Session{cmd: c, Args: args, Out: root.Writer, Err: root.ErrWriter, Input: root.Reader}
	if !v.Offline {
		s.Verbose = c.Bool("verbose")
		client, err := rest.New(connection(c))
		if err != nil {
			return err
		}
		s.Client = client
	}
	if v.Format && c.Bool("json") && c.String("t") != "" {
		return v.misused(c, "Both -json and -t are given: only one of them is allowed")
	}
	return v.Run(ctx, s)
}

func (v Verb) wanted(n int) string {
	switch {
	case v.Max == 0:
		return fmt.Sprintf("This command takes no arguments, %d given", n)
	case v.Min == v.Max:
		return fmt.Sprintf("This command takes %s: %s", plural(v.Min), v.Args)
	case v.Max < 0:
		return fmt.Sprintf("This command takes at least %s: %s", plural(v.Min), v.Args)
	}
	return fmt.Sprintf("This command takes %d to %s: %s", v.Min, plural(v.Max), v.Args)
}

func plural(n int) string {
	if n == 1 {
		return "one argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help", Local: true}
}

// Adopt gives a command that was made elsewhere the help and the exit codes of a verb.
func Adopt(c *cli.Command) *cli.Command {
	c.HideHelp = true
	c.DisableSliceFlagSeparator = true
	c.Flags = append(c.Flags, helpFlag())
	if c.OnUsageError == nil {
		c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
			return Verb{}.misused(c, err.Error())
		}
	}
	act := c.Action
	c.Action = func(ctx context.Context, c *cli.Command) error {
		if c.Bool("help") || act == nil {
			Help(c.Root().Writer, c)
			return nil
		}
		return act(ctx, c)
	}
	return c
}

// Group is a command that only holds others.
func Group(name, usage string, verbs ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Commands: verbs, HideHelp: true,
		Flags: []cli.Flag{helpFlag()},
		OnUsageError: func(_ context.Context, c *cli.Command, err error, _ bool) error {
			return &Exit{Code: 1, Text: err.Error() + "\nFor additional help try '" + c.FullName() + " -help'"}
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() && !c.Bool("help") {
				Help(c.Root().ErrWriter, c)
				return &Exit{Code: 1, Text: fmt.Sprintf("There is no command %q", c.FullName()+" "+strings.Join(c.Args().Slice(), " "))}
			}
			Help(c.Root().Writer, c)
			return nil
		},
	}
}
