package fake

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Storage is the provider behind one or more drivers.
type Storage struct {
	mu         sync.Mutex
	volumes    map[string]*volume
	snapshots  map[string]*snapshot
	nodes      map[string]bool
	excused    map[string]bool
	secrets    map[string]map[string]string
	quotes     bool
	flying     []*flight
	overlaps   []string
	violations []string
	next       int
}

type volume struct {
	id, name string
	size     int64
	block    bool
	source   *pb.VolumeContentSource
	attached map[string]Attachment
	// staged and published are mounts by node and path.
	staged    map[string]map[string]mount
	published map[string]map[string]mount
}

// mount is how a volume is staged or published at a path.
type mount struct {
	capability *pb.VolumeCapability
	readOnly   bool
}

func (m mount) mode() pb.VolumeCapability_AccessMode_Mode {
	return m.capability.GetAccessMode().GetMode()
}

func (m mount) writes() bool { return !m.readOnly && !readers(m.mode()) }

// like compares what callers asked for.
func (m mount) like(o mount) bool {
	return m.readOnly == o.readOnly && m.capability.String() == o.capability.String()
}

type snapshot struct {
	id, name, source string
	size             int64
	group            string
	cut, ready       time.Time
}

// NewStorage makes an empty provider.
func NewStorage() *Storage {
	return &Storage{
		volumes: map[string]*volume{}, snapshots: map[string]*snapshot{}, nodes: map[string]bool{}, excused: map[string]bool{},
		secrets: map[string]map[string]string{},
	}
}

func (s *Storage) know(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node] = true
}

// Add makes a file system volume with the given id, as if it had always been there.
func (s *Storage) Add(id string) { s.add(id, false) }

// AddBlock makes a block volume with the given id.
func (s *Storage) AddBlock(id string) { s.add(id, true) }

func (s *Storage) add(id string, block bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(id, id, 1<<20, block)
}

func (s *Storage) addLocked(id, name string, size int64, block bool) *volume {
	v := &volume{
		id: id, name: name, size: size, block: block, attached: map[string]Attachment{},
		staged: map[string]map[string]mount{}, published: map[string]map[string]mount{},
	}
	s.volumes[id] = v
	return v
}

// Remove takes a volume away behind everybody's back.
func (s *Storage) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.volumes, id)
}

// Detach takes a volume off a node behind everybody's back.
func (s *Storage) Detach(id, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.volumes[id]; v != nil {
		delete(v.attached, node)
	}
}

// Group makes a snapshot part of a group snapshot.
func (s *Storage) Group(snapshot, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.snapshots[snapshot]; n != nil {
		n.group = group
	}
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

// RequireSecrets makes calls that carry secrets need these, for one volume or, with an empty id, for all that have
// none of their own. Another call rotates them; nil asks for none. With quote, refusals quote what was sent.
func (s *Storage) RequireSecrets(volume string, secrets map[string]string, quote bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[volume], s.quotes = maps.Clone(secrets), quote
}

// admit refuses calls with wrong secrets.
func (s *Storage) admit(c Call) error {
	r, ok := c.Request.(interface{ GetSecrets() map[string]string })
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want, own := s.secrets[c.Volume]
	if !own {
		want = s.secrets[""]
	}
	for k, v := range want {
		if r.GetSecrets()[k] == v {
			continue
		}
		if s.quotes {
			return status.Errorf(codes.Unauthenticated, "login refused:\n%s", quoted(c.Request))
		}
		return status.Error(codes.Unauthenticated, "login refused")
	}
	return nil
}

// Use describes where a volume is.
type Use struct {
	Attached, Staged, Published []string
	SizeBytes                   int64
}

// Use lists where a volume is attached (nodes), staged and published (node:path), in order.
func (s *Storage) Use(id string) Use {
	t, ok := s.Truth(id)
	if !ok {
		return Use{}
	}
	u := Use{SizeBytes: t.SizeBytes, Attached: slices.Sorted(maps.Keys(t.Attached))}
	for _, m := range t.Staged {
		u.Staged = append(u.Staged, m.Node+":"+m.Path)
	}
	for _, m := range t.Published {
		u.Published = append(u.Published, m.Node+":"+m.Path)
	}
	return u
}

// Attachment is how a volume is attached to a node.
type Attachment struct {
	Mode     pb.VolumeCapability_AccessMode_Mode
	ReadOnly bool
}

// Mount is a volume at a path of a node.
type Mount struct {
	Node, Path string
	Mode       pb.VolumeCapability_AccessMode_Mode
	ReadOnly   bool
}

// Truth is what the provider knows of a volume. Mounts are in the order of nodes and paths.
type Truth struct {
	SizeBytes         int64
	Attached          map[string]Attachment
	Staged, Published []Mount
}

// Writers lists the nodes that may write, in order.
func (t Truth) Writers() []string {
	var out []string
	for _, m := range t.Published {
		if !m.ReadOnly && !readers(m.Mode) && !slices.Contains(out, m.Node) {
			out = append(out, m.Node)
		}
	}
	return out
}

// Truth returns what the provider knows of a volume, and whether it exists.
func (s *Storage) Truth(id string) (t Truth, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil {
		return Truth{}, false
	}
	return Truth{SizeBytes: v.size, Attached: maps.Clone(v.attached), Staged: listed(v.staged), Published: listed(v.published)}, true
}

func listed(all map[string]map[string]mount) []Mount {
	var out []Mount
	for node, paths := range all {
		for path, m := range paths {
			out = append(out, Mount{node, path, m.mode(), m.readOnly})
		}
	}
	slices.SortFunc(out, func(a, b Mount) int { return strings.Compare(a.Node+":"+a.Path, b.Node+":"+b.Path) })
	return out
}

// Exists reports whether the provider has the volume.
func (s *Storage) Exists(id string) bool {
	_, ok := s.Truth(id)
	return ok
}

// Volumes lists the ids of all volumes, in order.
func (s *Storage) Volumes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.volumes))
}

// Snapshots lists the ids of all snapshots, in order.
func (s *Storage) Snapshots() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.snapshots))
}
