package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Limits of rules and their errors.
const (
	nameMax     = 128
	pathMax     = 1024
	mistakesMax = 10
	reasonMax   = 300
	knownMax    = 10
)

// Parse reads the rules of a policy, in HCL or JSON. The error lists the mistakes with line and column.
func Parse(rules string) (*Policy, error) {
	if err := bounds.CheckSize("failed to parse rules", len(rules)); err != nil {
		return nil, err
	}
	items, err := hcl1.Parse("Failed to parse ACL Policy", []byte(rules))
	if err != nil {
		return nil, refusal(err)
	}
	p := &parser{policy: &Policy{Raw: rules}}
	p.file(items)
	if len(p.Mistakes) > 0 {
		return nil, refusal(p.Mistakes...)
	}
	return p.policy, nil
}

// refusal joins mistakes to one error. Each has a heading, such as "Invalid namespace policy", in place of a path.
func refusal(mistakes ...error) error {
	var texts []string
	for i, err := range mistakes {
		if i == mistakesMax {
			texts = append(texts, "and more")
			break
		}
		var m *tree.Error
		errors.As(err, &m)
		reason := m.Reason
		if len(reason) > reasonMax {
			reason = strings.ToValidUTF8(reason[:reasonMax], "") + "..."
		}
		texts = append(texts, fmt.Sprintf("%s: At %d:%d: %s", m.Path, m.At.Line, m.At.Column, reason))
	}
	return fault.New(fault.Invalid, "failed to parse rules: %s", strings.Join(texts, "; "))
}

// parser reads the tree of a file into a policy and collects mistakes.
type parser struct {
	tree.Decoder
	policy *Policy
}

// wrong adds a mistake with a heading.
func (p *parser) wrong(at tree.Place, heading, format string, args ...any) {
	p.Mistakes = append(p.Mistakes, &tree.Error{Path: heading, At: at, Reason: fmt.Sprintf(format, args...)})
}

// labelled are the blocks that a name follows.
var labelled = []string{"namespace", "node_pool", "host_volume"}

// file reads the blocks of a file.
func (p *parser) file(items []tree.Item) {
	p.Path, p.Single, p.Ignored = "Invalid policy", true, labelled
	p.Unknown = func(tree.Item, string) bool { return len(p.Mistakes) > mistakesMax } // suggestions take time
	p.Values = map[string]func(reflect.Value, tree.Value) error{"sentinel.policy": p.choice("sentinel policy", readWriteDeny)}
	for k := range words {
		block := words[k].block
		p.Values[block+".policy"] = p.choice(block+" policy", words[k].policies)
		p.Values[block+".capabilities"] = p.capabilities(block, words[k].capabilities)
	}
	var single []tree.Item
	for _, it := range items {
		switch it.Key {
		case "namespace":
			p.each(it, p.namespace)
		case "node_pool":
			p.each(it, func(name string, at tree.Place, items []tree.Item) {
				p.policy.NodePools = append(p.policy.NodePools, p.object(nodePools, name, at, items))
			})
		case "host_volume":
			p.each(it, func(name string, at tree.Place, items []tree.Item) {
				p.policy.HostVolumes = append(p.policy.HostVolumes, p.object(hostVolumes, name, at, items))
			})
		default:
			single = append(single, it)
		}
	}
	p.Decode(p.policy, single, "")
	p.single(agent, p.policy.Agent, single)
	p.single(node, p.policy.Node, single)
	p.single(quota, p.policy.Quota, single)
	p.single(plugin, p.policy.Plugin, single)
	if o := p.policy.Operator; o != nil {
		if o.Policy == "" && len(o.Capabilities) == 0 {
			p.needsPolicy(operator, single)
		}
		explicit := o.Capabilities
		o.Capabilities = expand(operator, o.Policy, explicit)
		p.policy.add(operator, "", o.Policy, explicit, o.Capabilities)
	}
}

// single adds the rule of a block whose only key is its policy.
func (p *parser) single(k kind, r *SingleRule, items []tree.Item) {
	if r == nil {
		return
	}
	if r.Policy == "" {
		p.needsPolicy(k, items)
	}
	p.policy.add(k, "", r.Policy, nil, nil)
}

// needsPolicy adds the mistake of a block that is empty.
func (p *parser) needsPolicy(k kind, items []tree.Item) {
	block := words[k].block
	i := slices.IndexFunc(items, func(it tree.Item) bool { return it.Key == block })
	p.wrong(items[i].At, "Invalid "+block+" policy", "the block needs a policy: %s", strings.Join(words[k].policies, ", "))
}

// each calls use for each block of a key, with its name: the label, or in JSON the key between.
func (p *parser) each(it tree.Item, use func(name string, at tree.Place, items []tree.Item)) {
	heading := fmt.Sprintf("Invalid %s", it.Key)
	blocks := []tree.Item{it}
	switch inner, isBlock := it.Value.Block(); {
	case !isBlock:
		p.wrong(it.Value.At, heading, "a block is needed, not %s", it.Value.Kind)
		return
	case len(it.Labels) == 0 && len(inner) > 0:
		blocks = inner
	case len(it.Labels) == 1:
		blocks[0].Key, blocks[0].Labels = it.Labels[0], nil
	default:
		p.wrong(it.At, heading, "one name is needed, such as %s \"dev-*\" { ... }", it.Key)
		return
	}
	for _, b := range blocks {
		if items, isBlock := b.Value.Block(); isBlock && len(b.Labels) == 0 {
			use(b.Key, b.At, items)
		} else {
			p.wrong(b.At, heading, "one name is needed before the block, such as %s \"dev-*\" { ... }", it.Key)
		}
	}
}

// namespace reads the rules on a namespace.
func (p *parser) namespace(name string, at tree.Place, items []tree.Item) {
	p.checkName("namespace", name, at, "")
	r := &NamespaceRule{Name: name}
	p.Values["namespace.variables"] = p.paths(name)
	p.Decode(r, items, "namespace")
	explicit := r.Capabilities
	r.Capabilities = expand(namespaces, r.Policy, explicit)
	p.policy.add(namespaces, name, r.Policy, explicit, r.Capabilities)
	p.policy.Namespaces = append(p.policy.Namespaces, r)
}

// paths reads the rules on variables of a namespace.
func (p *parser) paths(namespace string) func(reflect.Value, tree.Value) error {
	return func(dst reflect.Value, v tree.Value) error {
		blocks, isBlock := v.Block()
		if !isBlock {
			return fmt.Errorf("a block is needed, not %s", v.Kind)
		}
		all := &VariablesRule{}
		for _, it := range blocks {
			if it.Key != "path" {
				p.Mistake(it.At, "unknown key %q in variables: only path blocks are known", it.Key)
				continue
			}
			p.each(it, func(path string, at tree.Place, items []tree.Item) {
				if path == "" || len(path) > pathMax || strings.ContainsFunc(path, unicode.IsControl) {
					p.wrong(at, "Invalid path", "%q is not a path or a glob of 1 to %d printable bytes", path, pathMax)
				}
				r := &PathRule{PathSpec: path}
				p.Decode(r, items, "path")
				p.policy.addPath(namespace, path, r.Capabilities)
				all.Paths = append(all.Paths, r)
			})
		}
		dst.Set(reflect.ValueOf(all))
		return nil
	}
}

// object reads the rule on a node pool or a host volume.
func (p *parser) object(k kind, name string, at tree.Place, items []tree.Item) *NamedRule {
	more := ""
	if k == nodePools {
		more = "_"
	}
	p.checkName(words[k].block, name, at, more)
	r := &NamedRule{Name: name}
	p.Decode(r, items, words[k].block)
	explicit := r.Capabilities
	r.Capabilities = expand(k, r.Policy, explicit)
	p.policy.add(k, name, r.Policy, explicit, r.Capabilities)
	return r
}

// checkName refuses names that no object can have. more are signs besides letters, digits, dashes and stars.
func (p *parser) checkName(block, name string, at tree.Place, more string) {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-*"+more, r)
	}
	if name == "" || len(name) > nameMax || strings.ContainsFunc(name, bad) {
		p.wrong(at, "Invalid "+block+" name", "%q is not a name or a glob of 1 to %d of a-z, A-Z, 0-9, %s", name, nameMax, strings.Join(strings.Split("-*"+more, ""), ", "))
	}
}

// choice assigns one of the policies.
func (p *parser) choice(what string, known []string) func(reflect.Value, tree.Value) error {
	return func(dst reflect.Value, v tree.Value) error {
		if v.Kind != tree.String || !slices.Contains(known, v.Text) {
			p.wrong(v.At, "Invalid "+what, "%q is not one of %s", v.Text, strings.Join(known, ", "))
		}
		dst.SetString(v.Text)
		return nil
	}
}

// capabilities assigns a list of capabilities.
func (p *parser) capabilities(block string, known []string) func(reflect.Value, tree.Value) error {
	return func(dst reflect.Value, v tree.Value) error {
		for _, e := range v.List {
			if len(p.Mistakes) > mistakesMax {
				break
			}
			if e.Kind != tree.String || !slices.Contains(known, e.Text) {
				p.wrong(e.At, "Invalid "+block+" capability", "%q is not %s", e.Text, oneOf(known, e.Text))
			}
		}
		return tree.Assign(dst, v)
	}
}

// oneOf names the known words, or of many the nearest to an unknown one.
func oneOf(known []string, word string) string {
	if len(known) <= knownMax {
		return "one of " + strings.Join(known, ", ")
	}
	return "known" + tree.Suggestion(word, slices.Clone(known))
}
