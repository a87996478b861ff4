package plugin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/findings"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Doctor is "nomad plugin doctor".
func Doctor(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "call the instances of CSI plugins and report what is wrong with them", Args: "[<plugin>]", Max: 1, Format: true,
		Description: "Each instance is called on its node, with calls that read no volume: Probe, GetPluginInfo and those for\n" +
			"capabilities. The exit code is 0 when all is well, 2 when there are errors or warnings, and 1 when the\n" +
			"command fails.",
		Flags: []cli.Flag{session.Verbose()},
		Run:   doctor,
	}.Command()
}

func doctor(ctx context.Context, s *session.Session) error {
	id := ""
	if len(s.Args) > 0 {
		stub, err := find.Plugin(ctx, s, s.Arg(0))
		if err != nil {
			return err
		}
		id = stub.ID
	}
	live := s.Live("Examining plugins")
	report, err := s.PluginDoctor(ctx, id)
	live.End()
	if err != nil {
		return session.Failed("examining plugins", err)
	}
	if s.Formatted() {
		if err := s.Document(report); err != nil {
			return err
		}
		return findings.Result(report.Findings)
	}
	for _, p := range report.Plugins {
		s.Titled("Plugin "+strconv.Quote(p.ID), instances(s, p.Instances))
		if s.Verbose {
			for _, i := range p.Instances {
				s.Printf("Capabilities of the %s on node %s: %s\n", i.Type, i.NodeID, view.OrNone(strings.Join(i.Capabilities, ", ")))
			}
		}
		s.Println()
	}
	findings.Show(s, report.Findings)
	switch n := findings.Count(report.Findings); {
	case len(report.Plugins) == 0:
		s.Println("No CSI plugins")
	case n == 0:
		s.Printf("Plugins examined: %d, all healthy\n", len(report.Plugins))
	default:
		s.Printf("\nPlugins examined: %d, errors and warnings: %d\n", len(report.Plugins), n)
	}
	return findings.Result(report.Findings)
}

func instances(s *session.Session, list []*api.PluginInstance) string {
	table := [][]string{{"Node", "Type", "Alloc ID", "Job ID", "Tasks", "Healthy", "Call", "Took", "Driver", "Version", "Socket"}}
	for _, i := range list {
		call := "ready"
		switch {
		case !i.Asked:
			call = "not called"
		case i.Error != "":
			call = "failed"
		case !i.Ready:
			call = "starting"
		}
		took := "-"
		if i.Took > 0 {
			took = i.Took.Round(100 * time.Microsecond).String()
		}
		node := i.NodeName
		if node == "" || s.Verbose {
			node = s.ID(i.NodeID)
		}
		table = append(table, []string{
			node, i.Type, view.OrNone(s.ID(i.AllocID)), view.OrNone(i.JobID), view.OrNone(i.TaskState), strconv.FormatBool(i.Healthy), call, took,
			view.OrNone(i.Provider), view.OrNone(i.Version), view.OrNone(i.Socket),
		})
	}
	return view.Table(table...)
}
