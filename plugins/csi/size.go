package csi

import (
	"maps"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
)

// Limits of the specification, in bytes.
const (
	stringMax = 128
	nodeIDMax = 256
	mapMax    = 4 << 10
	pathMax   = 4 << 10
)

func checkName(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) > stringMax {
		return fault.New(fault.Invalid, "%s has %d bytes and CSI allows %d", what, len(s), stringMax)
	}
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f {
			return fault.New(fault.Invalid, "%s has a control character", what)
		}
	}
	return nil
}

// checkID wants an id. Ids are the plugin's own, and many plugins make them longer than they may.
func checkID(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) > mapMax {
		return fault.New(fault.Invalid, "%s has %d bytes", what, len(s))
	}
	return nil
}

func checkNodeID(s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "node id is missing")
	}
	if len(s) > nodeIDMax {
		return fault.New(fault.Invalid, "node id has %d bytes and CSI allows %d", len(s), nodeIDMax)
	}
	return nil
}

func checkPath(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) >= pathMax {
		return fault.New(fault.Invalid, "%s has %d bytes", what, len(s))
	}
	return nil
}

// checkSecrets accepts keys of letters, digits, -, _ and . as the specification requires. Errors do not contain the
// keys either: a user may have mistaken them for values.
func checkSecrets(m map[string]string) error {
	for i, k := range slices.Sorted(maps.Keys(m)) {
		for _, r := range k {
			if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.') {
				return fault.New(fault.Invalid, "key %d of the secrets, in order of their names, has %q: CSI allows letters, digits, -, _ and .", i+1, r)
			}
		}
		if k == "" {
			return fault.New(fault.Invalid, "a key of the secrets is empty")
		}
	}
	return checkMap("secrets", m)
}

// checkTopologies wants the preferred topologies among the required ones, if there are any.
func checkTopologies(t *api.TopologyRequest) error {
	if t == nil {
		return nil
	}
	required := pbTopologies(t.Required)
	if len(required) == 0 {
		return nil
	}
	for _, p := range pbTopologies(t.Preferred) {
		if !slices.ContainsFunc(required, func(r *pb.Topology) bool { return maps.Equal(r.Segments, p.Segments) }) {
			return fault.New(fault.Invalid, "the preferred topology %v is not one of the required topologies, as CSI wants: add it there, or leave it out", p.Segments)
		}
	}
	return nil
}

// checkMap checks the size of a map of the user. Errors do not contain its content, which may be secret.
func checkMap(what string, m map[string]string) error {
	n := 0
	for k, v := range m {
		n += len(k) + len(v)
	}
	if n > mapMax {
		return fault.New(fault.Invalid, "%s have %d bytes and CSI allows %d", what, n, mapMax)
	}
	return nil
}

func checkOptions(o *api.MountOptions) error {
	if o == nil {
		return nil
	}
	n := 0
	for _, f := range o.MountFlags {
		n += len(f)
	}
	if n > mapMax {
		return fault.New(fault.Invalid, "mount flags have %d bytes and CSI allows %d", n, mapMax)
	}
	if len(o.FSType) > stringMax {
		return fault.New(fault.Invalid, "file system type has %d bytes and CSI allows %d", len(o.FSType), stringMax)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Replies may be larger than the specification allows, for many plugins' are, but not by orders of magnitude:
// what they hold is recorded with every server.
const (
	replyMapMax   = 16 * mapMax
	topologiesMax = 1000
)

// A reply of a plugin is checked for these holes; empty means none.

func replyID(id string) string {
	if why := ids.Wrong(id); why != "" {
		return "no usable id: " + why
	}
	return ""
}

func replyMap(m map[string]string) string {
	n := 0
	for k, v := range m {
		n += len(k) + len(v)
	}
	if n > replyMapMax {
		return "a context that is too large"
	}
	return ""
}

func replyTopology(t *pb.Topology) string {
	if replyMap(t.GetSegments()) != "" {
		return "a topology that is too large"
	}
	return ids.WrongTopology(&api.Topology{Segments: t.GetSegments()})
}

func replyTopologies(list []*pb.Topology) string {
	if len(list) > topologiesMax {
		return "too many topologies"
	}
	for _, t := range list {
		if what := replyTopology(t); what != "" {
			return what
		}
	}
	return ""
}

func firstHole(rpc string, holes ...string) error {
	for _, what := range holes {
		if what != "" {
			return hole(rpc, what)
		}
	}
	return nil
}
