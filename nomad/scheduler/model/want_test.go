package model_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Rules that a group may have for its nodes.
const (
	anywhere  = ""
	rackA     = "rack a"
	nowhere   = "no rack"
	distinct  = "distinct hosts"
	onePerDen = "one per rack"
)

var rules = []string{anywhere, anywhere, rackA, distinct, onePerDen, nowhere}

// want is what a user asks for.
type want struct {
	id, kind string
	priority int
	// work is what the tasks are: another one needs new allocations.
	work   string
	sick   bool // the tasks are never healthy
	groups []groupWant
	roll   *api.UpdateStrategy
	launch string // "periodic" or "parameterized"
	// silence is what becomes of allocations on a node that hears no server, or is not heard.
	silence string
	atOnce  bool // all is placed in one plan, or nothing
}

// What a group says of nodes out of reach.
const (
	endsAlone = "ends alone" // the node ends it after a minute
	mayReturn = "may return" // it is replaced at once, and may be back within an hour
)

type groupWant struct {
	count, cpu int
	rule       string
	// spread are the parts in hundred that the racks are to have; none at all spreads evenly.
	spread map[string]int
	// likes is the weight of nodes in rack a; 0 for all the same.
	likes int
}

func groupName(i int) string { return string(rune('g' + i)) }

func (w want) job() *api.Job {
	j := &api.Job{ID: w.id, Name: w.id, Type: w.kind, Priority: w.priority, Datacenters: []string{"*"}, AllAtOnce: w.atOnce}
	switch w.launch {
	case "periodic":
		j.Periodic = &api.PeriodicConfig{Enabled: true, Spec: "0 0 1 1 *", SpecType: "cron"}
	case "parameterized":
		j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional"}
	}
	for i, g := range w.groups {
		t := &api.Task{
			Name: "t", Driver: "mock_driver", Config: map[string]any{"run_for": "1h"}, Env: map[string]string{"work": w.work},
			Resources: &api.Resources{CPU: g.cpu, MemoryMB: 10}, KillTimeout: time.Second,
		}
		if w.sick {
			t.Env["sick"] = "yes"
		}
		group := &api.TaskGroup{Name: groupName(i), Count: g.count, Tasks: []*api.Task{t}, EphemeralDisk: &api.EphemeralDisk{SizeMB: 10}}
		switch w.silence {
		case endsAlone:
			group.Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Minute, Replace: true}
		case mayReturn:
			group.Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true}
		}
		if w.kind == api.JobTypeService || w.kind == api.JobTypeSystem {
			u := api.UpdateStrategy{HealthCheck: "task_states", HealthyDeadline: 5 * time.Minute, MinHealthyTime: time.Second}
			if w.roll != nil {
				u = *w.roll
			}
			group.Update = &u
		}
		if w.kind == api.JobTypeService {
			group.ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: 5 * time.Second, DelayFunction: "constant"}
		}
		if g.spread != nil {
			s := &api.Spread{Attribute: "${meta.rack}", Weight: 100}
			for rack, percent := range g.spread {
				s.SpreadTarget = append(s.SpreadTarget, &api.SpreadTarget{Value: rack, Percent: uint8(percent)})
			}
			group.Spreads = []*api.Spread{s}
		}
		if g.likes != 0 {
			group.Affinities = []*api.Affinity{{LTarget: "${meta.rack}", Operand: "=", RTarget: "a", Weight: int8(g.likes)}}
		}
		switch g.rule {
		case rackA:
			group.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", Operand: "=", RTarget: "a"}}
		case nowhere:
			group.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", Operand: "=", RTarget: "none"}}
		case distinct:
			group.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
		case onePerDen:
			group.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", Operand: api.ConstraintDistinctProperty}}
		}
		j.TaskGroups = append(j.TaskGroups, group)
	}
	return j
}

// What the model reads of a job as it is stored.

func cpuOf(j *api.Job, group string) int64 {
	if g := j.Group(group); g != nil {
		return int64(g.Tasks[0].Resources.CPU)
	}
	return 0
}

func ruleOf(j *api.Job, group string) string {
	for _, c := range j.Group(group).Constraints {
		switch {
		case c.Operand == api.ConstraintDistinctHosts:
			return distinct
		case c.Operand == api.ConstraintDistinctProperty:
			return onePerDen
		case c.RTarget == "a":
			return rackA
		default:
			return nowhere
		}
	}
	return anywhere
}

// workOf is what makes two versions of a group need different allocations.
func workOf(j *api.Job, group string) string {
	return fmt.Sprint(cpuOf(j, group), j.Group(group).Tasks[0].Env)
}

func sick(j *api.Job) bool { return j.TaskGroups[0].Tasks[0].Env["sick"] != "" }

// index is that of an allocation's name.
func index(a *api.Allocation) int {
	_, n, _ := strings.Cut(a.Name, "[")
	i, err := strconv.Atoi(strings.TrimSuffix(n, "]"))
	if err != nil {
		return -1
	}
	return i
}

// takesNew reports whether anything new may come to the node.
func takesNew(n *api.Node) bool {
	return n != nil && n.Status == api.NodeStatusReady && n.SchedulingEligibility == api.NodeSchedulingEligible && n.DrainStrategy == nil
}

// suits reports whether the node is one for the group, whatever is on it.
func suits(n *api.Node, j *api.Job, group string) bool {
	switch ruleOf(j, group) {
	case rackA:
		return n.Meta["rack"] == "a"
	case nowhere:
		return false
	}
	return true
}

// crowds reports whether the group's rule keeps another one from the node because of one that is there.
func crowds(tx *state.Txn, j *api.Job, group string, on *api.Node, there *api.Allocation) bool {
	n := tx.Node(there.NodeID)
	if there.JobID != j.ID || there.TaskGroup != group || n == nil {
		return false
	}
	switch ruleOf(j, group) {
	case distinct:
		return n.ID == on.ID
	case onePerDen:
		return n.Meta["rack"] == on.Meta["rack"]
	}
	return false
}

// evicts reports whether jobs of that kind may evict others.
func evicts(tx *state.Txn, kind string) bool {
	c := tx.SchedulerConfig().PreemptionConfig
	switch kind {
	case api.JobTypeSystem:
		return c.SystemSchedulerEnabled
	case api.JobTypeSysbatch:
		return c.SysBatchSchedulerEnabled
	case api.JobTypeBatch:
		return c.BatchSchedulerEnabled
	}
	return c.ServiceSchedulerEnabled
}

// fits reports whether the node could take one more of the group, if without were not there.
func fits(tx *state.Txn, j *api.Job, group string, n *api.Node, without *api.Allocation) bool {
	if !takesNew(n) || !suits(n, j, group) {
		return false
	}
	free := n.NodeResources.Cpu.CpuShares
	for a := range tx.Allocs("default") {
		if a.ClientTerminal() || without != nil && a.ID == without.ID {
			continue
		}
		if crowds(tx, j, group, n, a) {
			return false
		}
		gives := evicts(tx, j.Type) && a.JobID != j.ID && a.Job.Priority <= j.Priority-10
		if a.NodeID == n.ID && !gives {
			free -= cpuOf(a.Job, a.TaskGroup)
		}
	}
	return cpuOf(j, group) <= free
}

// place finds a node for one more of the group.
func place(tx *state.Txn, j *api.Job, group string, without *api.Allocation) *api.Node {
	for n := range tx.Nodes() {
		if fits(tx, j, group, n, without) {
			return n
		}
	}
	return nil
}
