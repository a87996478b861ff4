package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// showDevices lists the devices of a node, who uses them, and what they report.
func showDevices(s *session.Session, n *api.Node, allocs []*api.Allocation, stats *api.HostStats) {
	if n.NodeResources != nil && len(n.NodeResources.Devices) > 0 {
		users := deviceUsers(allocs)
		if s.Verbose {
			s.Section("Devices", instances(n.NodeResources.Devices, users)...)
			showAttributes(s, n.NodeResources.Devices)
		} else {
			s.Section("Devices", groups(n.NodeResources.Devices, users)...)
		}
		s.Reasons(deviceReasons(n.NodeResources.Devices))
	}
	if stats == nil {
		return
	}
	if text := rows.DeviceSummaries(stats.DeviceStats); text != "" {
		s.Titled("Device Resource Utilization", text)
	}
	if s.Bool("stats") {
		for _, d := range rows.DeviceStats(stats.DeviceStats) {
			s.Titled("Device Stats of "+d.Name, d.Text)
		}
	}
}

func nameOf(g *api.NodeDeviceResource) string { return rows.DeviceName(g.Vendor, g.Type, g.Name) }

// deviceUsers are the allocations that use a device, by the name of its group and its id.
func deviceUsers(allocs []*api.Allocation) map[[2]string]string {
	users := map[[2]string]string{}
	for _, a := range allocs {
		if a.Terminal() || a.AllocatedResources == nil {
			continue
		}
		for _, t := range a.AllocatedResources.Tasks {
			for _, d := range t.Devices {
				for _, id := range d.DeviceIDs {
					users[[2]string{rows.DeviceName(d.Vendor, d.Type, d.Name), id}] = a.ID
				}
			}
		}
	}
	return users
}

func groups(list []*api.NodeDeviceResource, users map[[2]string]string) [][]string {
	table := [][]string{{"Device", "Healthy", "Allocated"}}
	for _, g := range list {
		healthy, used := 0, 0
		for _, i := range g.Instances {
			if i.Healthy {
				healthy++
			}
			if users[[2]string{nameOf(g), i.ID}] != "" {
				used++
			}
		}
		table = append(table, []string{nameOf(g), fmt.Sprintf("%d/%d", healthy, len(g.Instances)), strconv.Itoa(used)})
	}
	return table
}

func instances(list []*api.NodeDeviceResource, users map[[2]string]string) [][]string {
	table := [][]string{{"Device", "ID", "Healthy", "PCI Bus ID", "Allocation", "Message"}}
	for _, g := range list {
		for _, i := range g.Instances {
			bus := ""
			if i.Locality != nil {
				bus = i.Locality.PciBusID
			}
			table = append(table, []string{
				nameOf(g), i.ID, strconv.FormatBool(i.Healthy), view.OrNone(bus), view.OrNone(users[[2]string{nameOf(g), i.ID}]), view.OrNone(i.HealthDescription),
			})
		}
	}
	return table
}

func showAttributes(s *session.Session, list []*api.NodeDeviceResource) {
	for _, g := range list {
		var pairs [][2]string
		for _, k := range slices.Sorted(maps.Keys(g.Attributes)) {
			a := cmp.Or(g.Attributes[k], &api.Attribute{})
			pairs = append(pairs, [2]string{k, view.OrNone(rows.Stat(&api.StatValue{
				FloatNumeratorVal: a.FloatVal, IntNumeratorVal: a.IntVal, StringVal: a.StringVal, BoolVal: a.BoolVal, Unit: a.Unit,
			}))})
		}
		if pairs != nil {
			s.Titled("Attributes of "+nameOf(g), view.Pairs(pairs...))
		}
	}
}

func deviceReasons(list []*api.NodeDeviceResource) (out []session.Reason) {
	for _, g := range list {
		for _, i := range g.Instances {
			if !i.Healthy && i.HealthDescription != "" {
				out = append(out, session.Reason{Of: "device " + nameOf(g) + "[" + i.ID + "]", Text: i.HealthDescription})
			}
		}
	}
	return out
}
