package feasible

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Target is one side of a constraint: a literal, or a property of the node.
type Target struct {
	kind targetKind
	name string
}

type targetKind uint8

const (
	literal targetKind = iota
	nodeID
	nodeName
	nodeDatacenter
	nodeClass
	nodePool
	nodeAttribute
	nodeMeta
	unknown
)

var nodeTargets = map[string]targetKind{
	"node.unique.id":   nodeID,
	"node.unique.name": nodeName,
	"node.datacenter":  nodeDatacenter,
	"node.class":       nodeClass,
	"node.pool":        nodePool,
}

// ParseTarget reads "${attr.kernel.name}" and the like; anything else is a literal.
func ParseTarget(s string) Target {
	inner, isRef := strings.CutPrefix(s, "${")
	inner, closed := strings.CutSuffix(inner, "}")
	if !isRef || !closed {
		return Target{literal, s}
	}
	inner = strings.TrimSpace(inner)
	if kind, known := nodeTargets[inner]; known {
		return Target{kind, ""}
	}
	if name, ok := strings.CutPrefix(inner, "attr."); ok {
		return Target{nodeAttribute, name}
	}
	if name, ok := strings.CutPrefix(inner, "meta."); ok {
		return Target{nodeMeta, name}
	}
	return Target{unknown, inner}
}

// Unique reports whether the target differs between nodes of one class.
func (t Target) Unique() bool {
	return t.kind == nodeID || t.kind == nodeName ||
		(t.kind == nodeAttribute || t.kind == nodeMeta) && strings.HasPrefix(t.name, "unique.")
}

// Value is what the target is on the node, and whether it is there.
func (t Target) Value(n *api.Node) (string, bool) {
	switch t.kind {
	case literal:
		return t.name, true
	case nodeID:
		return n.ID, true
	case nodeName:
		return n.Name, true
	case nodeDatacenter:
		return n.Datacenter, true
	case nodeClass:
		return n.NodeClass, true
	case nodePool:
		return n.NodePool, true
	case nodeAttribute:
		v, ok := n.Attributes[t.name]
		return v, ok
	case nodeMeta:
		v, ok := n.Meta[t.name]
		return v, ok
	}
	return "", false
}
