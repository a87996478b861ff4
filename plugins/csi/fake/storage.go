package fake

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Storage is the provider behind one or more drivers.
type Storage struct {
	mu         sync.Mutex
	volumes    map[string]*volume
	snapshots  map[string]*snapshot
	nodes      map[string]*Driver
	violations []string
	next       int
}

type volume struct {
	id, name string
	size     int64
	block    bool
	source   string
	attached map[string]attachment
	// staged and published are paths by node.
	staged    map[string]map[string]bool
	published map[string]map[string]string // node -> target -> how
	inFlight  map[string]string            // what is in flight -> call
}

type attachment struct {
	readOnly bool
	mode     pb.VolumeCapability_AccessMode_Mode
}

type snapshot struct {
	id, name, source string
	size             int64
}

// NewStorage makes an empty provider.
func NewStorage() *Storage {
	return &Storage{volumes: map[string]*volume{}, snapshots: map[string]*snapshot{}, nodes: map[string]*Driver{}}
}

// Add makes a file system volume with the given id, as if it had always been there.
func (s *Storage) Add(id string) { s.add(id, id, 1<<20, false) }

// AddBlock makes a block volume with the given id.
func (s *Storage) AddBlock(id string) { s.add(id, id, 1<<20, true) }

func (s *Storage) add(id, name string, size int64, block bool) *volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(id, name, size, block)
}

func (s *Storage) addLocked(id, name string, size int64, block bool) *volume {
	v := &volume{
		id: id, name: name, size: size, block: block, attached: map[string]attachment{},
		staged: map[string]map[string]bool{}, published: map[string]map[string]string{}, inFlight: map[string]string{},
	}
	s.volumes[id] = v
	return v
}

// Violations lists what callers did against the rules.
func (s *Storage) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

func (s *Storage) violatedLocked(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// Use describes where a volume is.
type Use struct {
	Attached, Staged, Published []string
	SizeBytes                   int64
}

// Use tells where a volume is attached (nodes), staged and published (node:path), in order.
func (s *Storage) Use(id string) Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil {
		return Use{}
	}
	u := Use{SizeBytes: v.size}
	for n := range v.attached {
		u.Attached = append(u.Attached, n)
	}
	for n, paths := range v.staged {
		for p := range paths {
			u.Staged = append(u.Staged, n+":"+p)
		}
	}
	for n, targets := range v.published {
		for t := range targets {
			u.Published = append(u.Published, n+":"+t)
		}
	}
	for _, l := range [][]string{u.Attached, u.Staged, u.Published} {
		slices.SortFunc(l, strings.Compare)
	}
	return u
}

// Exists reports whether the provider has the volume.
func (s *Storage) Exists(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes[id] != nil
}

// Forget makes a node lose what it has staged and published, as a reboot does.
func (s *Storage) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.volumes {
		delete(v.staged, node)
		delete(v.published, node)
	}
}
