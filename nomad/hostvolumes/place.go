package hostvolumes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// place chooses the node of a volume: of those that can have it, one with the fewest dynamic host volumes.
func place(tx *state.Txn, v *api.HostVolume) (*api.Node, error) {
	if v.NodeID != "" {
		n := tx.Node(v.NodeID)
		if n == nil {
			return nil, fault.New(fault.NotFound, "node %q does not exist", v.NodeID)
		}
		if why := refusal(tx, n, v); why != "" {
			return nil, fault.New(fault.Conflict, "node %s cannot have host volume %q: %s", n.ID, v.Name, why)
		}
		return n, nil
	}
	refused := map[string]int{}
	var best []*api.Node
	fewest := perNodeMax
	for n := range tx.Nodes() {
		why := refusal(tx, n, v)
		if why == "" && !feasible.Available(n) {
			why = "not eligible or draining"
		}
		if why != "" {
			refused[why]++
			continue
		}
		count := 0
		for range tx.HostVolumesByNode(n.ID) {
			count++
		}
		if count < fewest {
			best, fewest = best[:0], count
		}
		if count == fewest {
			best = append(best, n)
		}
	}
	if len(best) == 0 {
		return nil, fault.New(fault.Conflict, "no node can have host volume %q: %s", v.Name, counted(refused))
	}
	return best[rand.IntN(len(best))], nil
}

// counted lists reasons with the numbers of nodes, the most frequent first.
func counted(refused map[string]int) string {
	var list []string
	for why, n := range refused {
		list = append(list, fmt.Sprintf("%d of the nodes: %s", n, why))
	}
	if len(list) == 0 {
		return "there are no nodes"
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
	return strings.Join(list[:min(len(list), namedMax)], "; ")
}

// refusal is why the node cannot have the volume, or "".
func refusal(tx *state.Txn, n *api.Node, v *api.HostVolume) string {
	if n.Status != api.NodeStatusReady {
		return "not ready"
	}
	if v.NodePool != "" && v.NodePool != api.NodePoolAll && n.NodePool != v.NodePool {
		return "not in node pool " + v.NodePool
	}
	if ns := tx.Namespace(v.Namespace); ns != nil && !inPools(ns.NodePoolConfiguration, n.NodePool) {
		return fmt.Sprintf("namespace %s does not use node pool %s", v.Namespace, n.NodePool)
	}
	if !v.Registered && n.Attributes["plugins.host_volume."+v.PluginID+".version"] == "" {
		return fmt.Sprintf("no host volume plugin %q", v.PluginID)
	}
	for _, c := range v.Constraints {
		if r := feasible.NewRule(c.LTarget, c.Operand, c.RTarget); !r.Holds(n) {
			return "constraint " + r.String()
		}
	}
	if nameTaken(tx, n, v) != nil {
		return "has a host volume of that name, or too many"
	}
	return ""
}

func inPools(c *api.NamespaceNodePoolConfiguration, pool string) bool {
	if c == nil {
		return true
	}
	matches := func(glob string) bool { return feasible.Glob(glob, pool) }
	if c.Allowed != nil {
		return pool == c.Default || slices.ContainsFunc(c.Allowed, matches)
	}
	return !slices.ContainsFunc(c.Denied, matches)
}
