package client

import (
	"sync"

	"github.com/google/uuid"
)

// sequence names this process of the agent and numbers its registrations, heartbeats and reports, so that the servers do
// not take one that comes late, by way of a server that was cut off or frozen, for news.
type sequence struct {
	mu      sync.Mutex
	process string
	number  uint64
}

// next returns the name of the process and the next number.
func (s *sequence) next() (process string, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == "" {
		s.process = uuid.NewString()
	}
	s.number++
	return s.process, s.number
}

// rename gives the process another name: its own was treated as that of a former process.
func (s *sequence) rename() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = ""
}
