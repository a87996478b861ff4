package volumes

// Known counts the allocations that the service knows.
func (s *Service) Known() int {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	return len(s.live.allocs)
}
