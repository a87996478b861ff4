package nodes

import (
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// newest records the newest heartbeat of each node that this leader has received. An older heartbeat that arrives late,
// through a server that was partitioned or frozen, would keep a dead node alive for another interval. A late heartbeat
// that is the last one of its node cannot be detected.
type newest struct {
	mu     sync.Mutex
	byNode map[string]sequence
}

// sequence is the process of an agent that sent a heartbeat, and the heartbeat's number in it.
type sequence struct {
	process string
	number  uint64
}

// admit refuses a heartbeat that was sent before another one that was admitted, or before the newest registration, or by
// another process of the agent than that has registered last: it would have to register. The same one may come twice.
func (s *newest) admit(n *api.Node, r *api.NodeHeartbeatRequest) error {
	if n.Process == "" || r.Process == "" { // an agent that does not send its process
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.byNode[n.ID]
	if r.Process != n.Process || r.Number < n.Number || r.Process == last.process && r.Number < last.number {
		return fault.New(fault.NotFound, "node %q sent newer data after this heartbeat: it must register again", n.ID)
	}
	if s.byNode == nil {
		s.byNode = map[string]sequence{}
	}
	s.byNode[n.ID] = sequence{n.Process, r.Number}
	return nil
}

func (s *newest) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, id)
}
