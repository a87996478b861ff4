package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// preempt makes room for the allocation on some node by stopping work of lower priority, and places it
// there. Nobody gives way yet.
func (p *placer) preempt(*api.Allocation, *feasible.VolumeAsk) bool { return false }
