package fake

import (
	"maps"
	"slices"
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
	attached map[string]attachment
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
	cut              time.Time
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
func (s *Storage) Add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(id, id, 1<<20, false)
}

func (s *Storage) addLocked(id, name string, size int64, block bool) *volume {
	v := &volume{
		id: id, name: name, size: size, block: block, attached: map[string]attachment{},
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

// Use describes where a volume is: attached (nodes), staged and published (node:path), in order.
type Use struct {
	Attached, Staged, Published []string
	SizeBytes                   int64
}

// Use returns where a volume is.
func (s *Storage) Use(id string) Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil {
		return Use{}
	}
	return Use{slices.Sorted(maps.Keys(v.attached)), places(v.staged), places(v.published), v.size}
}

func places(all map[string]map[string]mount) (out []string) {
	for node, paths := range all {
		for path := range paths {
			out = append(out, node+":"+path)
		}
	}
	slices.Sort(out)
	return out
}

// attachment is how a volume is attached to a node.
type attachment struct {
	mode     pb.VolumeCapability_AccessMode_Mode
	readOnly bool
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

// lock locks the provider, which the caller unlocks, and finds the volume of a request.
func (d *Driver) lock(r interface{ GetVolumeId() string }) (*Storage, *volume, error) {
	d.store.mu.Lock()
	v := d.store.volumes[r.GetVolumeId()]
	if v == nil {
		return d.store, nil, noVolume(r.GetVolumeId())
	}
	return d.store, v, nil
}
