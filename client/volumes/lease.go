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
