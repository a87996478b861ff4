package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Named is a policy with its name.
type Named struct {
	Name   string
	Policy *Policy
}

// Rights are what the policies of a token permit.
type Rights struct {
	management bool
	tables     [kinds]table
	// readable are variables that may be listed and read without a rule, unless a rule denies it.
	readable map[string]bool
}

// Everything are the rights of management tokens.
func Everything() *Rights { return &Rights{management: true} }

// Compile merges policies.
func Compile(policies ...Named) *Rights {
	var sizes [kinds][shapes]int
	n := 0
	for _, p := range policies {
		if p.Policy == nil {
			continue
		}
		n += len(p.Policy.rules)
		for i := range p.Policy.rules {
			rule := &p.Policy.rules[i]
			sizes[rule.kind][rule.pattern.shape]++
		}
	}
	r := &Rights{}
	entries, grants := make([]entry, 0, n), make([]grant, 0, n)
	for _, p := range policies {
		if p.Policy == nil {
			continue
		}
		for i := range p.Policy.rules {
			rule := &p.Policy.rules[i]
			by := &r.tables[rule.kind].by[rule.pattern.shape]
			if *by == nil {
				*by = make(map[string]*entry, sizes[rule.kind][rule.pattern.shape])
			}
			e := (*by)[rule.pattern.key()]
			if e == nil {
				entries = append(entries, entry{pattern: &rule.pattern, kind: rule.kind})
				e = &entries[len(entries)-1]
				(*by)[rule.pattern.key()] = e
			}
			grants = append(grants, grant{policy: p.Name, rule: rule, next: e.first})
			e.first = &grants[len(grants)-1]
			e.grants |= rule.grants
		}
	}
	for i := range entries {
		r.tables[entries[i].kind].add(&entries[i])
	}
	for k := range r.tables {
		slices.SortFunc(r.tables[k].mixed, compare)
	}
	return r
}

// readableRule is the rule of [Rights.WithReadable] that [Rights.Explain] returns; no policy has it.
const readableRule = "a workload lists and reads the variables of its job, group and task"

// WithReadable returns rights that also permit to list and read variables of a namespace. The paths are no globs.
func (r *Rights) WithReadable(namespace string, paths ...string) *Rights {
	c := *r
	c.readable = maps.Clone(r.readable)
	if c.readable == nil {
		c.readable = map[string]bool{}
	}
	for _, path := range paths {
		c.readable[variable(namespace, path)] = true
	}
	return &c
}

// IsManagement reports whether these are the rights of a management token.
func (r *Rights) IsManagement() bool { return r.management }

// find returns the entry that decides about an object.
func (r *Rights) find(k kind, name string) *entry {
	if !words[k].named {
		name = ""
	}
	return r.tables[k].find(name)
}

// Allows reports whether a right is permitted. The name is that of the namespace, node pool or host volume; a star in it
// is no glob. Single objects have no name.
func (r *Rights) Allows(right api.Right, name string) bool {
	if r.management {
		return true
	}
	k, known := kindOf(right.On)
	if !known {
		return false
	}
	if k == variables {
		namespace, path, _ := strings.Cut(name, "/")
		return slices.ContainsFunc(right.Any, func(operation string) bool { return r.Variables(namespace, path, operation) })
	}
	e := r.find(k, name)
	return e != nil && grantsAny(k, e.grants, right.Any)
}

// decides returns the entry that decides about an object, for a variable perhaps that of its namespace.
func (r *Rights) decides(k kind, name string) *entry {
	if k == variables {
		namespace, path, _ := strings.Cut(name, "/")
		return r.ofVariable(namespace, path)
	}
	return r.find(k, name)
}

func (r *Rights) ofVariable(namespace, path string) *entry {
	if e := r.find(namespaces, namespace); e != nil && e.grants&denied != 0 {
		return e
	}
	return r.find(variables, variable(namespace, path))
}

// AllowsSomewhere reports whether a right is permitted under at least one name.
func (r *Rights) AllowsSomewhere(right api.Right) bool {
	if r.management {
		return true
	}
	k, known := kindOf(right.On)
	return known && grantsAny(k, r.tables[k].somewhere, right.Any)
}

// grantsAny reports whether grants permit one of the capabilities.
func grantsAny(k kind, grants uint64, capabilities []string) bool {
	if grants&denied != 0 {
		return false
	}
	for _, c := range capabilities {
		if grants&words[k].bits[c] != 0 {
			return true
		}
	}
	return false
}

// Sees reports whether any capability is permitted in a namespace.
func (r *Rights) Sees(namespace string) bool {
	if r.management {
		return true
	}
	e := r.find(namespaces, namespace)
	return e != nil && e.grants != 0 && e.grants&denied == 0
}

// Variables reports whether an operation on a variable is permitted: list, read, write or destroy.
func (r *Rights) Variables(namespace, path, operation string) bool {
	if r.management {
		return true
	}
	e := r.ofVariable(namespace, path)
	if e != nil && (e.grants&denied != 0 || grantsAny(variables, e.grants, []string{operation})) {
		return e.grants&denied == 0
	}
	return (operation == "list" || operation == "read") && r.readable[variable(namespace, path)]
}

// Explain returns whether a right is permitted and the rule that decides it: the one that grants a capability or denies,
// or else one of the deciding pattern, which lacks the capabilities. Management tokens need no rule.
func (r *Rights) Explain(right api.Right, name string) api.Verdict {
	v := api.Verdict{Allowed: r.Allows(right, name)}
	k, known := kindOf(right.On)
	if r.management || !known {
		return v
	}
	e := r.decides(k, name)
	if v.Allowed && (e == nil || !grantsAny(k, e.grants, right.Any)) {
		v.Rule = readableRule
		return v
	}
	if e == nil {
		return v
	}
	decides := func(g *grant) bool { return true }
	if e.grants&denied != 0 {
		decides = func(g *grant) bool { return g.grants&denied != 0 }
	} else if v.Allowed {
		decides = func(g *grant) bool { return grantsAny(k, g.grants, right.Any) }
	}
	for g := e.first; g != nil; g = g.next {
		// of several rules the first by policy, then by text, whatever the order of the policies is
		if decides(g) && (v.Rule == "" || g.policy < v.Policy || g.policy == v.Policy && g.text < v.Rule) {
			v.Policy, v.Rule = g.policy, g.text
		}
	}
	return v
}
