package volumes

import "time"

// Lease is for how long the tasks of an allocation may use its volumes after the node's last answered
// heartbeat, and what to unmount then, inner paths first. A term of 0 means for ever.
func (s *Service) Lease(allocID string) (term time.Duration, paths []string) {
	var staged []string
	for _, r := range s.journal.ofAlloc(allocID) {
		if r.Lease <= 0 || !r.touched() {
			continue
		}
		if term == 0 || r.Lease < term {
			term = r.Lease
		}
		paths = append(paths, r.Target.Host)
		if r.Stages {
			staged = append(staged, r.Staging.Host)
		}
	}
	return term, append(paths, staged...)
}

// ShortestLease is the shortest term of all leases on the node; 0 when there are none.
func (s *Service) ShortestLease() (term time.Duration) {
	for _, r := range s.journal.rows() {
		if r.Lease > 0 && r.touched() && (term == 0 || r.Lease < term) {
			term = r.Lease
		}
	}
	return term
}
