package node

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Show prints one node.
func Show(ctx context.Context, s *session.Session, id string) error {
	n, _, err := s.Node(ctx, id, rest.Query{})
	if err != nil {
		return session.Failed("querying node", err)
	}
	if s.Formatted() {
		return s.Document(n)
	}
	stats, statsErr := s.NodeStats(ctx, n.ID)
	s.Print(view.Pairs(facts(s, n, stats)...))
	allocs, _, err := s.NodeAllocations(ctx, n.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying node allocations", err)
	}
	volumes, err := volumesOn(ctx, s, n.ID, allocs)
	if err != nil {
		s.Warnf("Could not read the volumes of the node: %s", err)
	}
	if volumes != "" {
		s.Titled("CSI Volumes", volumes)
	}
	if !s.Bool("short") {
		showDetails(s, n)
	}
	if !s.Bool("short") {
		showResources(s, n, allocs, stats)
		showDevices(s, n, allocs, stats)
		if statsErr != nil {
			s.Warnf("Could not read the resource usage: %s", statsErr)
		}
	}
	stubs := make([]*api.AllocStub, 0, len(allocs))
	for _, a := range allocs {
		stubs = append(stubs, rows.Stub(a))
	}
	s.Titled("Allocations", rows.Allocs(stubs, s.Verbose, time.Now()))
	if s.Verbose {
		showMap(s, "Attributes", n.Attributes)
		showMap(s, "Meta", n.Meta)
	}
	return s.Page(ctx, "node", "clients", n.ID)
}

func facts(s *session.Session, n *api.Node, stats *api.HostStats) [][2]string {
	f := [][2]string{
		{"ID", s.ID(n.ID)},
		{"Name", n.Name},
		{"Node Pool", n.NodePool},
		{"Class", n.NodeClass},
		{"DC", n.Datacenter},
		{"Drain", strconv.FormatBool(n.Drain || n.DrainStrategy != nil)},
		{"Eligibility", n.SchedulingEligibility},
		{"Status", n.Status},
		{"CSI Controllers", names(n.CSIControllerPlugins)},
		{"CSI Drivers", names(n.CSINodePlugins)},
	}
	if stats != nil {
		f = append(f, [2]string{"Uptime", (time.Duration(stats.Uptime) * time.Second).String()})
	}
	if !s.Verbose {
		f = append(f, [2]string{"Driver Status", driverStatus(n.Drivers)})
	}
	return f
}

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ",") }

func driverStatus(drivers map[string]*api.DriverInfo) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		switch d := drivers[name]; {
		case d.Healthy:
			list = append(list, name)
		case d.Detected:
			list = append(list, name+" (unhealthy)")
		}
	}
	return strings.Join(list, ",")
}

func showDetails(s *session.Session, n *api.Node) {
	if len(n.HostVolumes) > 0 {
		table, dynamic := [][]string{{"Name", "ReadOnly", "Source"}}, false
		for _, v := range n.HostVolumes {
			dynamic = dynamic || v.ID != ""
		}
		if dynamic {
			table[0] = append(table[0], "ID")
		}
		for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
			v := n.HostVolumes[name]
			row := []string{name, strconv.FormatBool(v.ReadOnly), view.OrNone(v.Path)}
			if dynamic {
				row = append(row, view.OrNone(v.ID))
			}
			table = append(table, row)
		}
		s.Section("Host Volumes", table...)
	}
	if len(n.StaleMounts) > 0 {
		table := [][]string{{"Volume", "Allocation", "Since", "Error"}}
		for _, m := range n.StaleMounts {
			table = append(table, []string{m.VolumeID, s.ID(m.AllocID), view.Time(time.Unix(0, m.Since)), view.OrNone(m.LastError)})
		}
		s.Section("Stale Mounts", table...)
		s.Reasons(staleReasons(n))
	}
	if s.Verbose {
		table := [][]string{{"Driver", "Detected", "Healthy", "Message", "Time"}}
		for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
			d := n.Drivers[name]
			table = append(table, []string{name, strconv.FormatBool(d.Detected), strconv.FormatBool(d.Healthy), view.OrNone(d.HealthDescription), view.Time(d.UpdateTime)})
		}
		s.Section("Drivers", table...)
	}
	table := [][]string{{"Time", "Subsystem", "Message"}}
	for _, e := range slices.Backward(n.Events) {
		table = append(table, []string{view.Time(e.Timestamp), e.Subsystem, e.Message})
	}
	s.Section("Node Events", table...)
	s.Reasons(eventReasons(n))
}

func staleReasons(n *api.Node) (list []session.Reason) {
	for _, m := range n.StaleMounts {
		list = append(list, session.Reason{Of: "volume " + m.VolumeID, Text: m.LastError})
	}
	return list
}

func eventReasons(n *api.Node) (list []session.Reason) {
	for _, e := range slices.Backward(n.Events) {
		list = append(list, session.Reason{Of: "the event at " + view.Time(e.Timestamp), Text: e.Message})
	}
	return list
}
