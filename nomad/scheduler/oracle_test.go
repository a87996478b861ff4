package scheduler_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The oracle knows the rules by brute force: after a plan no node has more than it can hold and none
// holds what it may not, and if something was not placed, no node could take it.

type oracleAsk struct {
	cpu, memory int
	port        int
	rack        string
	hosts       bool
	perRack     bool
}

func drawCluster(t *rapid.T, c *cluster) {
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		c.node(fmt.Sprintf("n%d", i), func(n *api.Node) {
			n.NodeResources.Cpu.CpuShares = rapid.Int64Range(0, 1000).Draw(t, "cpu")
			n.NodeResources.Memory.MemoryMB = rapid.Int64Range(0, 1000).Draw(t, "memory")
			n.ReservedResources = &api.NodeReservedResources{
				Cpu:      api.NodeReservedCpuResources{CpuShares: rapid.Uint64Range(0, 200).Draw(t, "reserved")},
				Networks: api.NodeReservedNetworkResources{ReservedHostPorts: rapid.SampledFrom([]string{"", "80", "79-81"}).Draw(t, "host ports")},
			}
			n.Meta = map[string]string{"rack": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rack")}
			n.Status = rapid.SampledFrom([]string{"ready", "ready", "ready", "down"}).Draw(t, "status")
			n.SchedulingEligibility = rapid.SampledFrom([]string{"eligible", "eligible", "ineligible"}).Draw(t, "eligibility")
		})
	}
}

func drawAsk(t *rapid.T) oracleAsk {
	return oracleAsk{
		cpu: rapid.IntRange(0, 400).Draw(t, "ask cpu"), memory: rapid.IntRange(0, 400).Draw(t, "ask memory"),
		port: rapid.SampledFrom([]int{0, 0, 80, 90}).Draw(t, "port"), rack: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "want rack"),
		hosts: rapid.Bool().Draw(t, "distinct hosts"), perRack: rapid.Bool().Draw(t, "distinct rack"),
	}
}

func (k oracleAsk) job(id string, count int) *api.Job {
	return job(id, api.JobTypeService, count, func(j *api.Job) {
		g := j.TaskGroups[0]
		g.Tasks[0].Resources = &api.Resources{CPU: k.cpu, MemoryMB: k.memory}
		if k.port > 0 {
			g.Networks = []*api.NetworkResource{{ReservedPorts: []api.Port{{Label: "p", Value: k.port}}}}
		}
		if k.rack != "" {
			g.Constraints = append(g.Constraints, &api.Constraint{LTarget: "${meta.rack}", RTarget: k.rack})
		}
		if k.hosts {
			g.Constraints = append(g.Constraints, &api.Constraint{Operand: api.ConstraintDistinctHosts})
		}
		if k.perRack {
			g.Constraints = append(g.Constraints, &api.Constraint{LTarget: "${meta.rack}", Operand: api.ConstraintDistinctProperty})
		}
	})
}

// refusal says why the oracle would not put one more of the ask on the node; extra is how many of the
// job's own allocations there are beyond the one in question.
func (k oracleAsk) refusal(tx *state.Txn, n *api.Node, except string) string {
	cpu, memory, own, rack := int64(k.cpu), int64(k.memory), 0, 0
	for a := range tx.Allocs("*") {
		if a.ID == except || a.ClientTerminal() {
			continue
		}
		other := tx.Node(a.NodeID)
		if a.JobID == "asked" && other.Meta["rack"] == n.Meta["rack"] {
			rack++
		}
		if a.NodeID != n.ID {
			continue
		}
		if a.JobID == "asked" {
			own++
		}
		cpu += a.AllocatedResources.Tasks["t"].Cpu.CpuShares
		memory += a.AllocatedResources.Tasks["t"].Memory.MemoryMB
		for _, p := range a.AllocatedResources.Shared.Ports {
			if p.Value == k.port {
				return "port is taken"
			}
		}
	}
	switch {
	case n.Status != "ready" || n.SchedulingEligibility != "eligible":
		return "node is not available"
	case cpu > n.NodeResources.Cpu.CpuShares-int64(n.ReservedResources.Cpu.CpuShares):
		return "cpu"
	case memory > n.NodeResources.Memory.MemoryMB:
		return "memory"
	case k.port == 80 && n.ReservedResources.Networks.ReservedHostPorts != "":
		return "port is the host's"
	case k.rack != "" && n.Meta["rack"] != k.rack:
		return "rack"
	case k.hosts && own > 0:
		return "distinct hosts"
	case k.perRack && rack > 0:
		return "distinct rack"
	}
	return ""
}

func TestPlansAreLegalAndComplete(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t)
		drawCluster(rt, c)
		filler := drawAsk(rt)
		filler.hosts, filler.perRack, filler.rack = false, false, ""
		f := filler.job("filler", rapid.IntRange(0, 4).Draw(rt, "fillers"))
		c.register(f)
		c.run(f)

		ask := drawAsk(rt)
		j := ask.job("asked", rapid.IntRange(1, 6).Draw(rt, "count"))
		c.register(j)
		o := c.run(j)
		tx := c.store.Read()
		for _, a := range placed(o) {
			if why := ask.refusal(tx, tx.Node(a.NodeID), a.ID); why != "" {
				rt.Fatalf("%s was placed on %s against the rules: %s", a.Name, a.NodeID, why)
			}
		}
		missing := j.TaskGroups[0].Count - len(placed(o))
		if missing != o.Queued["g"] || (missing > 0) != (o.Failed["g"] != nil) {
			rt.Fatalf("%d missing, %d queued, metric %v", missing, o.Queued["g"], o.Failed["g"])
		}
		if missing == 0 {
			return
		}
		for n := range tx.Nodes() {
			if ask.refusal(tx, n, "") == "" {
				rt.Fatalf("node %s could take what was not placed: %+v", n.ID, o.Failed["g"])
			}
		}
		if m := o.Failed["g"]; m.NodesFiltered+m.NodesExhausted != m.NodesEvaluated || m.CoalescedFailures != missing-1 {
			rt.Fatalf("metric does not add up: %+v", m)
		}
	})
}
