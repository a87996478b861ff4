package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Policy is the rules of one policy. Its JSON form is RulesJSON of the HTTP API; lists of capabilities have the explicit
// ones first and then those of the shorthand.
type Policy struct {
	Agent        *SingleRule `hcl:"agent"`
	ExtraKeysHCL []string
	HostVolumes  []*NamedRule
	Namespaces   []*NamespaceRule
	Node         *SingleRule `hcl:"node"`
	NodePools    []*NamedRule
	Operator     *OperatorRule `hcl:"operator"`
	Plugin       *SingleRule   `hcl:"plugin"`
	Quota        *SingleRule   `hcl:"quota"`
	// Raw are the rules as the user wrote them.
	Raw string
	// Sentinel is accepted and has no effect.
	Sentinel *SingleRule `hcl:"sentinel"`

	rules []rule
}

// NamespaceRule is a rule on namespaces, with rules on their variables.
type NamespaceRule struct {
	Capabilities []string `hcl:"capabilities"`
	// Name is a name or a glob.
	Name      string
	Policy    string         `hcl:"policy"`
	Variables *VariablesRule `hcl:"variables"`
}

// VariablesRule is the rules on variables of a namespace.
type VariablesRule struct{ Paths []*PathRule }

// PathRule is a rule on the variables whose path the PathSpec matches.
type PathRule struct {
	Capabilities []string `hcl:"capabilities"`
	PathSpec     string
}

// NamedRule is a rule on node pools or host volumes.
type NamedRule struct {
	Capabilities []string `hcl:"capabilities"`
	// Name is a name or a glob.
	Name   string
	Policy string `hcl:"policy"`
}

// SingleRule is a rule on an object without a name.
type SingleRule struct {
	Policy string `hcl:"policy"`
}

// OperatorRule is a rule on operations of the cluster.
type OperatorRule struct {
	Capabilities []string `hcl:"capabilities"`
	Policy       string   `hcl:"policy"`
}

// rule is what one block means.
type rule struct {
	kind    kind
	pattern pattern
	// grants has the bits of the capabilities, with those that they imply.
	grants uint64
	// text is the block on one line.
	text string
}

// add adds the rule of a block. explicit are the capabilities that the block lists, all those with the ones of its policy.
func (p *Policy) add(k kind, name, policy string, explicit, all []string) {
	r := rule{kind: k, pattern: patternOf(name), text: line(words[k].block, name, policy, explicit)}
	for _, c := range all {
		r.grants |= words[k].grants[c]
	}
	if !words[k].named {
		r.grants |= words[k].grants[policy]
	}
	p.rules = append(p.rules, r)
}

// addPath adds the rule of a path in a namespace.
func (p *Policy) addPath(namespace, path string, capabilities []string) {
	p.add(variables, variable(namespace, path), "", nil, capabilities)
	r := &p.rules[len(p.rules)-1]
	r.text = fmt.Sprintf("namespace %s { variables { %s } }", quote(namespace), line("path", path, "", capabilities))
}

// variable is the name of a variable, or the pattern of several, among those of all namespaces.
func variable(namespace, path string) string { return namespace + "\x00" + path }

// line writes a block on one line, as a user may write it.
func line(block, name, policy string, capabilities []string) string {
	var b strings.Builder
	b.WriteString(block)
	if name != "" {
		b.WriteString(" " + quote(name))
	}
	var keys []string
	if policy != "" {
		keys = append(keys, "policy = "+quote(policy))
	}
	if len(capabilities) > 0 {
		var quoted []string
		for _, c := range capabilities {
			quoted = append(quoted, quote(c))
		}
		keys = append(keys, "capabilities = ["+strings.Join(quoted, ", ")+"]")
	}
	b.WriteString(" { " + strings.Join(keys, ", "))
	if len(keys) > 0 {
		b.WriteString(" ")
	}
	return b.String() + "}"
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string has a JSON form
	return string(b)
}

// expand returns the explicit capabilities followed by those of the policy.
func expand(k kind, policy string, explicit []string) []string {
	return append(slices.Clip(explicit), words[k].shorthand[policy]...)
}
