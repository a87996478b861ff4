package nodes

// Counts reports whether the leader loop watches the node.
func (s *Service) Counts(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch != nil && s.watch.has(id)
}

func (d *deadlines) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, has := d.nodes.Get(id)
	return has
}
