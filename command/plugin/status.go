package plugin

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad plugin".
func Group() *cli.Command {
	return session.Group("plugin", "show and examine CSI plugins", Status("status"), Doctor("doctor"))
}

// Status is "nomad plugin status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list CSI plugins, or show one", Args: "[<plugin>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "short", Usage: "basic facts only"},
			&cli.StringFlag{Name: "type", Usage: "`kind` of plugins: csi"},
		},
		Run: status,
	}.Command()
}

func status(ctx context.Context, s *session.Session) error {
	if t := s.String("type"); t != "" && t != api.VolumeTypeCSI {
		return fault.New(fault.Invalid, "there are no plugins of type %q, only csi", t)
	}
	if len(s.Args) > 0 {
		stub, err := find.Plugin(ctx, s, s.Arg(0))
		if err != nil {
			return err
		}
		return Show(ctx, s, stub.ID)
	}
	plugins, _, err := s.Plugins(ctx, rest.Query{})
	if err != nil {
		return session.Failed("querying CSI plugins", err)
	}
	if s.Formatted() {
		return s.Document(plugins)
	}
	s.Println("Container Storage Interface")
	if len(plugins) == 0 {
		s.Warnf("No CSI plugins")
		return nil
	}
	s.Print(find.PluginTable(plugins))
	return nil
}

// Show prints one plugin.
func Show(ctx context.Context, s *session.Session, id string) error {
	p, _, err := s.Plugin(ctx, id, rest.Query{})
	if err != nil {
		return session.Failed("querying plugin", err)
	}
	if s.Formatted() {
		return s.Document(p)
	}
	s.Print(view.Pairs(
		[2]string{"ID", p.ID}, [2]string{"Provider", p.Provider}, [2]string{"Version", p.Version},
		[2]string{"Controllers Healthy", strconv.Itoa(p.ControllersHealthy)},
		[2]string{"Controllers Expected", strconv.Itoa(p.ControllersExpected)},
		[2]string{"Nodes Healthy", strconv.Itoa(p.NodesHealthy)},
		[2]string{"Nodes Expected", strconv.Itoa(p.NodesExpected)},
		[2]string{"Fence", fence(p)}))
	if s.Bool("short") {
		return nil
	}
	if s.Verbose {
		showCapabilities(s, "Controller Capabilities", controllerCapabilities(p.Controllers))
		showCapabilities(s, "Node Capabilities", nodeCapabilities(p.Nodes))
		showTopologies(s, p.Nodes)
	}
	showUnhealthy(s, p)
	s.Titled("Allocations", rows.Allocs(p.Allocations, s.Verbose, time.Now()))
	return s.Page(ctx, "plugin", "storage", "plugins", p.ID)
}

// fence describes which fence of volumes is right for the driver.
func fence(p *api.Plugin) string {
	told, attaches := false, false
	for _, i := range p.Controllers {
		if c := i.ControllerInfo; c != nil && i.OwnedBy == "" {
			told, attaches = true, attaches || c.SupportsAttachDetach
		}
	}
	switch {
	case attaches:
		return `storage: it detaches volumes from lost nodes (set fence = "both" where its detach is bookkeeping only)`
	case !told && p.ControllerRequired:
		return "unknown: no controller has reported whether it attaches volumes"
	}
	return "lease: it does not attach volumes, lost nodes stop their users themselves"
}

// showUnhealthy prints what is wrong with instances.
func showUnhealthy(s *session.Session, p *api.Plugin) {
	var reasons []session.Reason
	table := [][]string{{"Node ID", "Kind", "Reason"}}
	for _, kind := range []struct {
		name      string
		instances map[string]*api.CSIInfo
	}{{"controller", p.Controllers}, {"node", p.Nodes}} {
		for _, id := range slices.Sorted(maps.Keys(kind.instances)) {
			if i := kind.instances[id]; !i.Healthy {
				table = append(table, []string{s.ID(id), kind.name, view.OrNone(i.HealthDescription)})
				reasons = append(reasons, session.Reason{Of: "the " + kind.name + " on node " + id, Text: i.HealthDescription})
			}
		}
	}
	if len(table) > 1 {
		s.Section("Unhealthy Instances", table...)
	}
	s.Reasons(reasons)
}

func showTopologies(s *session.Session, nodes map[string]*api.CSIInfo) {
	table := [][]string{{"Node ID", "Accessible Topology"}}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		if n := nodes[id].NodeInfo; n != nil && n.AccessibleTopology != nil {
			table = append(table, []string{view.ID(id, false), view.Map(n.AccessibleTopology.Segments, ",")})
		}
	}
	if len(table) > 1 {
		s.Section("Accessible Topologies", table...)
	}
}
