package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// PluginFacts is what is known about one CSI plugin. Instances are sorted by node and type.
type PluginFacts struct {
	Plugin    *api.Plugin
	Instances []*api.PluginInstance
	// Volumes counts the volumes of the plugin.
	Volumes int
}

// Plugin returns what is wrong with a CSI plugin.
func Plugin(f PluginFacts) []*api.StorageFinding {
	var all []*api.StorageFinding
	for _, rule := range []func(PluginFacts) []*api.StorageFinding{counts, instances, drivers, capabilities, nodeIDs} {
		for _, found := range rule(f) {
			found.PluginID = f.Plugin.ID
			all = append(all, found)
		}
	}
	Sort(all)
	return all
}

// counts reports missing instances.
func counts(f PluginFacts) (all []*api.StorageFinding) {
	p := f.Plugin
	severity := api.SeverityWarning
	if f.Volumes > 0 {
		severity = api.SeverityError
	}
	switch {
	case p.NodesHealthy == 0:
		all = append(all, &api.StorageFinding{
			Kind: "no-healthy-node-instance", Severity: severity, Text: fmt.Sprintf("no node instance is healthy, of %d expected; the plugin has %d volumes", p.NodesExpected, f.Volumes),
			Next: "volumes of the plugin cannot be placed or mounted", Command: "nomad plugin status " + p.ID,
		})
	case p.NodesHealthy < p.NodesExpected:
		all = append(all, &api.StorageFinding{
			Kind: "node-instances-missing", Severity: api.SeverityWarning, Text: fmt.Sprintf("%d of %d expected node instances are healthy", p.NodesHealthy, p.NodesExpected),
			Next: "volumes can be used on nodes with a healthy instance", Command: "nomad plugin status " + p.ID,
		})
	}
	needed := p.ControllerRequired || p.ControllersExpected > 0
	switch {
	case needed && p.ControllersHealthy == 0:
		all = append(all, &api.StorageFinding{
			Kind: "no-healthy-controller", Severity: severity, Text: fmt.Sprintf("no controller is healthy, of %d expected; the plugin has %d volumes", p.ControllersExpected, f.Volumes),
			Next: "attach, detach and operations of volumes wait", Command: "nomad plugin status " + p.ID,
		})
	case p.ControllersHealthy < p.ControllersExpected:
		all = append(all, &api.StorageFinding{
			Kind: "controllers-missing", Severity: api.SeverityWarning, Text: fmt.Sprintf("%d of %d expected controllers are healthy", p.ControllersHealthy, p.ControllersExpected),
			Next: "the healthy controllers serve all calls", Command: "nomad plugin status " + p.ID,
		})
	}
	return all
}

// instances reports each instance that does not work, by its node's report and by its replies.
func instances(f PluginFacts) (all []*api.StorageFinding) {
	for _, i := range f.Instances {
		kind, severity, text := "", api.SeverityError, ""
		switch {
		case i.NodeStatus != api.NodeStatusReady:
			kind, severity, text = "node-not-ready", api.SeverityWarning, fmt.Sprintf("the node is %s and was not called", cmp.Or(i.NodeStatus, "unknown"))
		case i.Error != "" && i.Healthy:
			kind, text = "call-failed", "its last report was healthy, and it fails now: "+i.Error
		case i.Error != "":
			kind, text = "call-failed", i.Error
		case i.Asked && !i.Ready:
			kind, severity, text = "starting", api.SeverityWarning, "it is not ready yet (Probe returned false)"
		case !i.Healthy:
			kind, text = "unhealthy", cmp.Or(i.HealthDescription, "its node reports it as unhealthy")
		case !i.Asked:
			kind, severity, text = "not-called", api.SeverityWarning, "the node was not reached in time; its last report was healthy"
		default:
			continue
		}
		command := "nomad node status " + i.NodeID
		if i.AllocID != "" && kind != "node-not-ready" {
			command = "nomad alloc logs -stderr " + i.AllocID
		}
		all = append(all, &api.StorageFinding{
			Kind: kind, Severity: severity, NodeID: i.NodeID, AllocID: i.AllocID, JobID: i.JobID, TaskState: i.TaskState, Command: command,
			Text: fmt.Sprintf("the %s instance on node %s (%s): %s", i.Type, i.NodeID, i.NodeName, text),
		})
	}
	return all
}

// drivers reports instances whose driver or version differs.
func drivers(f PluginFacts) []*api.StorageFinding {
	names := values(f.Instances, func(i *api.PluginInstance) string { return i.Provider })
	if len(names) > 1 {
		return one(&api.StorageFinding{
			Kind: "drivers-differ", Severity: api.SeverityError, Text: "instances run different drivers under one plugin id: " + strings.Join(names, "; "),
			Next: "only instances of the driver that owns the volumes are used", Command: "nomad plugin status " + f.Plugin.ID,
		})
	}
	versions := values(f.Instances, func(i *api.PluginInstance) string { return i.Version })
	if len(versions) > 1 {
		return one(&api.StorageFinding{
			Kind: "versions-differ", Severity: api.SeverityWarning, Text: "instances run different versions of the driver: " + strings.Join(versions, "; "),
			Next: "nothing; an update that runs ends this by itself", Command: "nomad plugin status " + f.Plugin.ID,
		})
	}
	return nil
}

// capabilities reports instances of one type with different capabilities.
func capabilities(f PluginFacts) (all []*api.StorageFinding) {
	for _, kind := range []string{api.CSIPluginTypeController, api.CSIPluginTypeNode, api.CSIPluginTypeMonolith} {
		list := values(f.Instances, func(i *api.PluginInstance) string {
			if i.Type != kind || !i.Ready {
				return ""
			}
			return cmp.Or(strings.Join(i.Capabilities, ","), "none")
		})
		if len(list) > 1 {
			all = append(all, &api.StorageFinding{
				Kind: "capabilities-differ", Severity: api.SeverityWarning, Text: kind + " instances have different capabilities: " + strings.Join(list, "; "),
				Next: "a call goes to an instance that supports it", Command: "nomad plugin doctor -verbose " + f.Plugin.ID,
			})
		}
	}
	return all
}

// nodeIDs reports an id of the driver that two nodes have: a volume attached for one would be attached for the other.
func nodeIDs(f PluginFacts) (all []*api.StorageFinding) {
	of := map[string]string{}
	for _, i := range f.Instances {
		first, known := of[i.ProviderNodeID]
		switch {
		case i.ProviderNodeID == "":
		case !known:
			of[i.ProviderNodeID] = i.NodeID
		case first != i.NodeID:
			all = append(all, &api.StorageFinding{
				Kind: "node-id-not-unique", Severity: api.SeverityError, NodeID: i.NodeID,
				Text: fmt.Sprintf("the driver calls nodes %s and %s by the same id %q", first, i.NodeID, i.ProviderNodeID),
				Next: "an attach for one node reaches the other; give each instance its own node id", Command: "nomad node status " + i.NodeID,
			})
		}
	}
	return all
}

// values lists the different values of instances, each with the nodes that have it; an empty value is left out.
func values(list []*api.PluginInstance, of func(*api.PluginInstance) string) (out []string) {
	nodes := map[string][]string{}
	var order []string
	for _, i := range list {
		v := of(i)
		if v == "" {
			continue
		}
		if nodes[v] == nil {
			order = append(order, v)
		}
		if name := cmp.Or(i.NodeName, i.NodeID); !slices.Contains(nodes[v], name) {
			nodes[v] = append(nodes[v], name)
		}
	}
	slices.Sort(order)
	for _, v := range order {
		named := nodes[v]
		more := ""
		if len(named) > nodesNamed {
			more = fmt.Sprintf(" and %d more", len(named)-nodesNamed)
			named = named[:nodesNamed]
		}
		out = append(out, fmt.Sprintf("%s on %s%s", v, strings.Join(named, ", "), more))
	}
	return out
}

// nodesNamed is how many nodes a text names.
const nodesNamed = 3
