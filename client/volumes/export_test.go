package volumes

// Known counts the allocations that the service knows.
func (s *Service) Known() int {
	s.allocs.mu.Lock()
	defer s.allocs.mu.Unlock()
	return len(s.allocs.allocs)
}
