package claims

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// selectorBytes limits the length of a selector: the time to parse one grows with its length times its depth.
const selectorBytes = 10 << 10

// Binding is what the binding rules give to a login.
type Binding struct {
	Management bool
	Policies   []string
	Roles      []*api.ACLTokenRoleLink
}

// Names looks up what binding rules name.
type Names interface {
	ACLPolicy(name string) *api.ACLPolicy
	ACLRoleByName(name string) *api.ACLRole
}

// Bind applies binding rules to a login. Policies and roles that do not exist do not count. It returns nil when nothing is
// left.
func (c *Claims) Bind(rules iter.Seq[*api.ACLBindingRule], names Names) *Binding {
	b := &Binding{}
	for r := range rules {
		if ok, err := c.Selected(r.Selector); err != nil || !ok {
			continue // a selector that meets an absent claim selects nothing
		}
		if r.BindType == api.BindTypeManagement {
			b.Management = true
			continue
		}
		name, complete := c.Fill(r.BindName, nil)
		if !complete {
			continue
		}
		switch r.BindType {
		case api.BindTypePolicy:
			if names.ACLPolicy(name) != nil {
				b.Policies = append(b.Policies, name)
			}
		case api.BindTypeRole:
			if role := names.ACLRoleByName(name); role != nil {
				b.Roles = append(b.Roles, &api.ACLTokenRoleLink{ID: role.ID, Name: role.Name})
			}
		}
	}
	if b.Management {
		return &Binding{Management: true}
	}
	if len(b.Policies)+len(b.Roles) == 0 {
		return nil
	}
	slices.Sort(b.Policies)
	b.Policies = slices.Compact(b.Policies)
	slices.SortFunc(b.Roles, func(x, y *api.ACLTokenRoleLink) int { return cmp.Compare(x.Name, y.Name) })
	b.Roles = slices.CompactFunc(b.Roles, func(x, y *api.ACLTokenRoleLink) bool { return x.ID == y.ID })
	return b
}

// CheckSelector rejects expressions that [Claims.Selected] cannot evaluate for any login.
func CheckSelector(selector string) error {
	if selector == "" {
		return nil
	}
	if len(selector) > selectorBytes {
		return fault.New(fault.Invalid, "selector has %d bytes; at most %d are allowed", len(selector), selectorBytes)
	}
	read, err := grammar.Parse("", []byte(selector), grammar.MaxExpressions(1_000_000))
	if err != nil {
		return fault.New(fault.Invalid, "selector is invalid: %w", err)
	}
	if _, err := bexpr.CreateEvaluator(selector); err != nil {
		return fault.New(fault.Invalid, "selector is invalid: %w", err)
	}
	e, _ := read.(grammar.Expression)
	return checkSelectors(e, nil)
}

// checkSelectors rejects selectors of other things than the claims and the names that an expression around them binds.
func checkSelectors(e grammar.Expression, bound []string) error {
	check := func(s grammar.Selector) error {
		if len(s.Path) > 0 && slices.Contains(bound, s.Path[0]) {
			return nil
		}
		if len(s.Path) < 2 || s.Path[0] != "value" && s.Path[0] != "list" {
			return fault.New(fault.Invalid, "selector names %q: only value.NAME and list.NAME can be selected", s)
		}
		return nil
	}
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		return checkSelectors(e.Operand, bound)
	case *grammar.BinaryExpression:
		return cmp.Or(checkSelectors(e.Left, bound), checkSelectors(e.Right, bound))
	case *grammar.CollectionExpression:
		inner := append(slices.Clone(bound), e.NameBinding.Default, e.NameBinding.Index, e.NameBinding.Value)
		return cmp.Or(check(e.Selector), checkSelectors(e.Inner, slices.DeleteFunc(inner, func(s string) bool { return s == "" })))
	case *grammar.MatchExpression:
		if e.Operator == grammar.MatchMatches || e.Operator == grammar.MatchNotMatches {
			if _, err := regexp.Compile(e.Value.Raw); err != nil {
				return fault.New(fault.Invalid, "selector is invalid: %w", err)
			}
		}
		return check(e.Selector)
	}
	return nil
}

// Selected reports whether a selector holds for the claims; an empty one holds for all.
func (c *Claims) Selected(selector string) (bool, error) {
	if selector == "" {
		return true, nil
	}
	e, err := bexpr.CreateEvaluator(selector)
	if err != nil {
		return false, err
	}
	return e.Evaluate(map[string]any{"value": c.Value, "list": c.List})
}

var placeholder = lazy.Regexp(`\$\{[^}]*\}?`)

// CheckTemplate rejects a template with other placeholders than value.NAME and the given ones.
func CheckTemplate(template string, others ...string) error {
	for _, p := range placeholder().FindAllString(template, -1) {
		name, closed := strings.CutSuffix(p, "}")
		name = strings.TrimSpace(strings.TrimPrefix(name, "${"))
		value, isValue := strings.CutPrefix(name, "value.")
		if !closed || !slices.Contains(others, name) && !(isValue && mappedName().MatchString(value)) {
			return fault.New(fault.Invalid, "%q is unknown in %q: write ${value.NAME} with a name of ClaimMappings", p, template)
		}
	}
	return nil
}

// Fill fills a template with the claims and others. It reports whether all values are present; absent ones are empty.
func (c *Claims) Fill(template string, others map[string]string) (filled string, complete bool) {
	complete = true
	filled = placeholder().ReplaceAllStringFunc(template, func(p string) string {
		name := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(p, "${"), "}"))
		if v, ok := others[name]; ok {
			return v
		}
		claim, ok := strings.CutPrefix(name, "value.")
		if !ok || c.Value[claim] == "" {
			complete = false
			return ""
		}
		return c.Value[claim]
	})
	return filled, complete
}
