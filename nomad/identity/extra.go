package identity

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// values are the names of the values in the templates of extra claims.
var values = map[string]func(*subject) string{
	"job.id":          func(s *subject) string { return s.alloc.JobID },
	"job.name":        func(s *subject) string { return s.alloc.Job.Name },
	"job.namespace":   func(s *subject) string { return s.alloc.Namespace },
	"job.region":      func(s *subject) string { return s.region },
	"job.node_pool":   func(s *subject) string { return s.alloc.Job.NodePool },
	"group.name":      func(s *subject) string { return s.alloc.TaskGroup },
	"alloc.id":        func(s *subject) string { return s.alloc.ID },
	"alloc.name":      func(s *subject) string { return s.alloc.Name },
	"task.name":       func(s *subject) string { return s.task },
	"node.id":         func(s *subject) string { return s.node.ID },
	"node.name":       func(s *subject) string { return s.node.Name },
	"node.datacenter": func(s *subject) string { return s.node.Datacenter },
	"node.pool":       func(s *subject) string { return s.node.NodePool },
	"node.class":      func(s *subject) string { return s.node.NodeClass },
}

// subject is what an identity is of.
type subject struct {
	region, task string
	alloc        *api.Allocation
	node         *api.Node
}

// Limits of the extra claims of a namespace.
const (
	extraMax     = 64
	extraNameMax = 128
	templateMax  = 1024
)

var placeholder = lazy.Regexp(`\$\{[^}]*\}?`)

// CheckExtra refuses extra claims whose names are reserved or whose templates have unknown values.
func CheckExtra(templates map[string]string) error {
	if len(templates) > extraMax {
		return fault.New(fault.Invalid, "%d extra claims are given; at most %d are allowed", len(templates), extraMax)
	}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		template := templates[name]
		switch {
		case Reserved(name):
			return fault.New(fault.Invalid, "extra claim %q has a name that is reserved: choose a name that is no registered claim and does not begin with nomad_", name)
		case len(name) > extraNameMax:
			return fault.New(fault.Invalid, "extra claim %.20q... has a name of %d bytes; at most %d are allowed", name, len(name), extraNameMax)
		case len(template) > templateMax:
			return fault.New(fault.Invalid, "extra claim %q has a value of %d bytes; at most %d are allowed", name, len(template), templateMax)
		}
		for _, p := range placeholder().FindAllString(template, -1) {
			if values[valueName(p)] == nil || !strings.HasSuffix(p, "}") {
				return fault.New(fault.Invalid, "extra claim %q: %q is unknown: use one of %s", name, p, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
			}
		}
	}
	return nil
}

func valueName(placeholder string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(placeholder, "${"), "}"))
}

// extraClaims returns the claims that the namespace of an allocation requires, and those of the wanted ones that it permits.
func extraClaims(tx *state.Txn, region string, a *api.Allocation, task string, wanted []string) map[string]string {
	n := tx.Namespace(a.Namespace)
	if n == nil || len(n.RequiredExtraClaims)+len(n.OptionalExtraClaims) == 0 {
		return nil
	}
	s := &subject{region: region, task: task, alloc: a, node: tx.Node(a.NodeID)}
	if s.node == nil {
		s.node = &api.Node{}
	}
	out := map[string]string{}
	add := func(name, template string) {
		out[name] = placeholder().ReplaceAllStringFunc(template, func(p string) string {
			if value := values[valueName(p)]; value != nil {
				return value(s)
			}
			return ""
		})
	}
	for _, name := range wanted {
		if template, ok := n.OptionalExtraClaims[name]; ok {
			add(name, template)
		}
	}
	for name, template := range n.RequiredExtraClaims {
		add(name, template)
	}
	return out
}
