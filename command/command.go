package command

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/acl"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/eval"
	"github.com/open-nomad/open-nomad/command/event"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/login"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/namespace"
	"github.com/open-nomad/open-nomad/command/node"
	"github.com/open-nomad/open-nomad/command/operator"
	"github.com/open-nomad/open-nomad/command/operator/debug"
	"github.com/open-nomad/open-nomad/command/plugin"
	"github.com/open-nomad/open-nomad/command/quota"
	"github.com/open-nomad/open-nomad/command/scaling"
	"github.com/open-nomad/open-nomad/command/server"
	"github.com/open-nomad/open-nomad/command/service"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/status"
	"github.com/open-nomad/open-nomad/command/system"
	"github.com/open-nomad/open-nomad/command/tls"
	"github.com/open-nomad/open-nomad/command/ui"
	"github.com/open-nomad/open-nomad/command/variables"
	"github.com/open-nomad/open-nomad/command/view"
	"github.com/open-nomad/open-nomad/command/volume"
	"github.com/open-nomad/open-nomad/command/watch"
)

// Version is the version of the program; the build sets it.
var Version = "0.1.0-dev"

// unknownCommand is the exit code of an unknown command, and of none at all.
const unknownCommand = 127

// ownHelp turns the library's help off, which would print two dashes and take arguments for topics.
var ownHelp = sync.OnceFunc(func() { cli.HelpFlag = nil })

// New makes the command tree; extra commands are added to it.
func New(extra ...*cli.Command) *cli.Command {
	ownHelp()
	verbs := slices.Concat(groups(), shortForms())
	for _, c := range extra {
		verbs = append(verbs, session.Adopt(c))
	}
	slices.SortFunc(verbs, func(a, b *cli.Command) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return &cli.Command{
		Name: "nomad", Usage: "run jobs with CSI volumes on a cluster",
		Commands: verbs, HideHelp: true, HideVersion: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version", Local: true},
			&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help", Local: true},
		},
		// Run ends the process, not the library.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError: func(_ context.Context, c *cli.Command, err error, _ bool) error {
			session.Help(c.ErrWriter, c)
			return &session.Exit{Code: unknownCommand, Text: err.Error()}
		},
		Action: root,
	}
}

func root(_ context.Context, c *cli.Command) error {
	switch {
	case c.Bool("version"):
		fmt.Fprint(c.Root().Writer, versions())
		return nil
	case c.Bool("help"):
		session.Help(c.Writer, c)
		return nil
	case c.Args().Present():
		session.Help(c.ErrWriter, c)
		return &session.Exit{Code: unknownCommand, Text: fmt.Sprintf("\nThere is no command %q", c.Args().First())}
	}
	session.Help(c.Writer, c)
	return &session.Exit{Code: unknownCommand}
}

// versions are the release whose surface this program has, which tools look for, and its own.
func versions() string { return fmt.Sprintf("Nomad v%s\nopen-nomad v%s\n", api.Compatible, Version) }

func groups() []*cli.Command {
	return []*cli.Command{
		job.Group(), alloc.Group(), eval.Group(), event.Group(), deployment.Group(), scaling.Group(), node.Group(), volume.Group(), plugin.Group(), server.Group(),
		system.Group(), namespace.Group(), quota.Group(), service.Group(), variables.Group(), acl.Group(), operator.Group(), tls.Group(), login.Login("login"),
		status.Any("status"), monitor.Agent("monitor"), status.AgentInfo("agent-info"), ui.Open("ui"), watch.Watch("watch"), version(),
	}
}

func version() *cli.Command {
	return session.Verb{
		Name: "version", Usage: "print the version", Max: -1, Offline: true,
		Run: func(_ context.Context, s *session.Session) error {
			s.Print(versions())
			return nil
		},
	}.Command()
}

// shortForms are the verbs that users know without their noun, and old names that stay hidden.
func shortForms() []*cli.Command {
	return []*cli.Command{
		job.Run("run"), job.Stop("stop"), job.Start("start"), job.Plan("plan"), job.Validate("validate"), job.Init("init"), job.Inspect("inspect"),
		alloc.Logs("logs"), alloc.Files("fs"), alloc.Exec("exec"), job.Action("action"),
		hidden(alloc.Status("alloc-status")), hidden(node.Status("node-status")), hidden(node.Drain("node-drain")),
		hidden(eval.Status("eval-status")), hidden(server.Members("server-members")),
		hidden(server.Join("server-join")), hidden(server.ForceLeave("server-force-leave")), hidden(debug.Verb("debug")),
	}
}

func hidden(c *cli.Command) *cli.Command {
	c.Hidden = true
	return c
}

// Run runs the command of the arguments, the program's name first, and returns the exit code.
func Run(ctx context.Context, root *cli.Command, args []string) int {
	err := root.Run(ctx, args)
	if err != nil && err.Error() != "" {
		fmt.Fprint(root.ErrWriter, view.Text(err.Error()+"\n"+hint(err)))
	}
	return session.Code(err)
}
