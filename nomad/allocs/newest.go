package allocs

import (
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// newest remembers the newest report of each node that came to this leader. One that comes late, by way of a server that was
// cut off or frozen, would have an allocation be again what it was before. A node sends what was refused anew.
type newest struct {
	mu     sync.Mutex
	byNode map[string]sequence
}

// sequence is the process of an agent that sent a report, and the report's number in it.
type sequence struct {
	process string
	number  uint64
}

// admit refuses a report that was sent before another one that was admitted, or by a process of the agent that is not the one
// that has registered last. The same report may come twice.
func (s *newest) admit(tx *state.Txn, r *api.AllocUpdateRequest) error {
	n := tx.Node(r.NodeID)
	if n == nil || n.Process == "" || r.Process == "" { // an agent that says nothing of its process
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.byNode[r.NodeID]
	if r.Process != n.Process || r.Process == last.process && r.Number < last.number {
		return fault.New(fault.Conflict, "node %q has said something newer since it sent this report", r.NodeID)
	}
	if s.byNode == nil {
		s.byNode = map[string]sequence{}
	}
	s.byNode[r.NodeID] = sequence{r.Process, r.Number}
	return nil
}
