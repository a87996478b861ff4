package fake

import (
	"maps"
	"slices"
)

// Known is a volume that the provider has.
type Known struct {
	// Name is that of a created volume; of others it is the id.
	ID, Name string
	// Attached lists the nodes to which it is attached, in order.
	Attached []string
	Bytes    int64
}

// Known lists the volumes of the provider in the order of their ids.
func (s *Storage) Known() (list []Known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.volumes)) {
		v := s.volumes[id]
		list = append(list, Known{v.id, v.name, slices.Sorted(maps.Keys(v.attached)), v.size})
	}
	return list
}

// Attached lists the nodes to which a volume is attached, in order.
func (s *Storage) Attached(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.volumes[id]; v != nil {
		return slices.Sorted(maps.Keys(v.attached))
	}
	return nil
}
