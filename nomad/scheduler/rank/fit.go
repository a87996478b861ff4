package rank

import (
	"math"

	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// Names of the parts of a score in the API.
const (
	PartFit          = "binpack"
	PartAntiAffinity = "job-anti-affinity"
	PartPenalty      = "node-reschedule-penalty"
	PartAffinity     = "node-affinity"
	PartSpread       = "allocation-spread"
	PartDevices      = "devices"
	PartPreemption   = "preemption"
)

const fitMax = 18

// BinPack prefers full nodes: 0 for an empty node, 1 for a full one. used includes the allocation to be placed.
func BinPack(total, used fleet.Amount) float64 {
	s := 20 - math.Pow(10, freeShare(total.CPU, used.CPU)) - math.Pow(10, freeShare(total.MemoryMB, used.MemoryMB))
	return clamp(s) / fitMax
}

// SpreadOut prefers empty nodes.
func SpreadOut(total, used fleet.Amount) float64 {
	s := math.Pow(10, freeShare(total.CPU, used.CPU)) + math.Pow(10, freeShare(total.MemoryMB, used.MemoryMB)) - 2
	return clamp(s) / fitMax
}

func clamp(s float64) float64 { return min(max(s, 0), fitMax) }

func freeShare(total, used int64) float64 {
	if total <= 0 {
		return 0
	}
	return 1 - float64(used)/float64(total)
}

// Preemption returns the part for a node with evictions: 1 when they cost little, 0 when they cost much. net is the highest
// evicted priority plus the sum of all evicted priorities divided by it.
func Preemption(net float64) float64 { return 1 / (1 + math.Exp(0.0048*(net-2048))) }

// AntiAffinity returns the part for a node that already runs the given number of allocations of the group.
func AntiAffinity(collisions, desired int) float64 {
	return -float64(collisions+1) / float64(max(desired, 1))
}
