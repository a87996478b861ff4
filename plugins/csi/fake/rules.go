package fake

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// flight is a changing call that has not ended.
type flight struct {
	call Call
	// keys name what it is about; calls with a common key overlap.
	keys []string
	// node is where it is made, or for which node a controller makes it.
	node       string
	controller bool
	// takes is set for calls that begin a use, single when that is of a volume for one node.
	takes, single bool
}

// changing are the calls of which only one may be in flight for an object.
var changing = []string{
	"CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerExpandVolume",
	"CreateSnapshot", "DeleteSnapshot",
	"NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeExpandVolume",
}

func (f *flight) String() string {
	if f.node == "" {
		return f.call.RPC
	}
	return f.call.RPC + " (" + f.node + ")"
}

// enter watches for a second call in flight for the object.
func (s *Storage) enter(c Call, node string) (leave func()) {
	if !slices.Contains(changing, c.RPC) {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flightLocked(c, node)
	for _, other := range s.flying {
		if i := slices.IndexFunc(f.keys, func(k string) bool { return slices.Contains(other.keys, k) }); i >= 0 {
			s.overlapLocked(f, other, f.keys[i])
		}
	}
	s.flying = append(s.flying, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying = slices.DeleteFunc(s.flying, func(o *flight) bool { return o == f })
	}
}

func (s *Storage) overlapLocked(f, other *flight, key string) {
	text := fmt.Sprintf("overlap: %s of %s while %s is in flight", f, strings.Replace(key, "/", " ", 1), other)
	s.overlaps = append(s.overlaps, text)
	if !tolerable(f, other) && !s.excused[f.node] && !s.excused[other.node] {
		s.violations = append(s.violations, text)
	}
}

// tolerable reports overlaps that a caller cannot avoid unless one place coordinates all nodes.
func tolerable(a, b *flight) bool {
	switch {
	case a.controller && b.controller:
		return false
	case !a.controller && !b.controller:
		return a.node != b.node && !(a.takes && b.takes && (a.single || b.single))
	case b.controller:
		a, b = b, a
	}
	// a is of a controller, b of a node.
	switch a.call.RPC {
	case "ControllerExpandVolume", "CreateSnapshot":
		return true
	case "ControllerPublishVolume", "ControllerUnpublishVolume":
		return a.node != b.node && !(a.takes && b.takes && (a.single || b.single))
	}
	return false
}

func (s *Storage) flightLocked(c Call, node string) *flight {
	f := &flight{call: c, node: node, keys: s.keysLocked(c.Request), controller: !strings.HasPrefix(c.RPC, "Node")}
	if f.controller {
		f.node = ""
		if r, ok := c.Request.(interface{ GetNodeId() string }); ok {
			f.node = r.GetNodeId()
		}
	}
	if r, ok := c.Request.(interface{ GetVolumeCapability() *pb.VolumeCapability }); ok && c.RPC != "ControllerExpandVolume" {
		f.takes, f.single = true, singleNode(r.GetVolumeCapability().GetAccessMode().GetMode())
	}
	return f
}

// keysLocked names what a request is about. A volume or snapshot that is being created has only its name; one
// that is known has both.
func (s *Storage) keysLocked(req any) []string {
	switch r := req.(type) {
	case *pb.CreateVolumeRequest:
		keys := []string{"name/" + r.GetName()}
		for _, v := range s.volumes {
			if v.name == r.GetName() {
				keys = append(keys, "volume/"+v.id)
			}
		}
		return keys
	case *pb.CreateSnapshotRequest:
		return []string{"snapshot/" + r.GetName(), "volume/" + r.GetSourceVolumeId()}
	case *pb.DeleteSnapshotRequest:
		if n := s.snapshots[r.GetSnapshotId()]; n != nil {
			return []string{"snapshot/" + n.name}
		}
		return []string{"snapshot id/" + r.GetSnapshotId()}
	case interface{ GetVolumeId() string }:
		keys := []string{"volume/" + r.GetVolumeId()}
		if v := s.volumes[r.GetVolumeId()]; v != nil {
			keys = append(keys, "name/"+v.name)
		}
		return keys
	}
	return nil
}

// Violations lists what callers did against the rules.
func (s *Storage) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Overlaps lists all calls that were in flight together for one object, also those that are no violation.
func (s *Storage) Overlaps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overlaps)
}

// Excuse marks a node as cut off or lost: what others do about its volumes meanwhile, and what it does
// that no other part knows, is no violation.
func (s *Storage) Excuse(node string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excused[node] = on
}

func (s *Storage) violatedLocked(node, format string, args ...any) {
	if !s.excused[node] {
		s.violations = append(s.violations, fmt.Sprintf(format, args...))
	}
}

func singleNode(m pb.VolumeCapability_AccessMode_Mode) bool {
	switch m {
	case pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	}
	return true
}

func readers(m pb.VolumeCapability_AccessMode_Mode) bool {
	return m == pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY || m == pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}

// singleWriter are the modes in which at most one publication may write.
func singleWriter(m pb.VolumeCapability_AccessMode_Mode) bool {
	return m == pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER || m == pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
}
