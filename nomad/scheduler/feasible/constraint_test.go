package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

func TestOperands(t *testing.T) {
	n := &api.Node{
		ID: "id1", Name: "web", Datacenter: "dc1", NodeClass: "big", NodePool: "gpu",
		Attributes: map[string]string{"v": "1.2.3", "pre": "1.6.0-beta", "n": "9", "f": "1.5", "set": "a, b,c", "empty": ""},
		Meta:       map[string]string{"k": "x"},
	}
	for _, c := range []struct {
		left, operand, right string
		want                 bool
	}{
		{"${attr.v}", "=", "1.2.3", true},
		{"${attr.v}", "", "1.2.3", true},
		{"${attr.v}", "=", "1", false},
		{"${attr.gone}", "=", "", false},
		{"${attr.gone}", "!=", "x", true},
		{"${attr.v}", "!=", "1.2.3", false},
		{"${attr.n}", "<", "10", true},
		{"${attr.n}", ">", "10", false},
		{"${attr.f}", ">=", "1.5", true},
		{"${meta.k}", ">", "w", true},
		{"${attr.gone}", "<", "1", false},
		{"${attr.v}", "regexp", "2.3$", true},
		{"${attr.v}", "regexp", "^2", false},
		{"${attr.v}", "regexp", "(", false},
		{"${attr.v}", "version", ">= 1.0, < 2.0", true},
		{"${attr.v}", "version", "~> 1.3", false},
		{"${attr.v}", "version", "bad", false},
		{"${attr.pre}", "semver", ">= 1.5.0", true},
		{"${attr.pre}", "semver", ">= 1.6.0", false},
		{"${attr.pre}", "semver", "~> 1.6", false},
		{"${attr.set}", "set_contains", "c,a", true},
		{"${attr.set}", "set_contains_all", "a,d", false},
		{"${attr.set}", "set_contains_any", "d, b", true},
		{"${attr.empty}", "is_set", "", true},
		{"${attr.gone}", "is_set", "", false},
		{"${attr.gone}", "is_not_set", "", true},
		{"${node.unique.id}", "=", "id1", true},
		{"${node.unique.name}", "=", "web", true},
		{"${node.datacenter}", "=", "dc1", true},
		{"${node.class}", "=", "big", true},
		{"${node.pool}", "=", "gpu", true},
		{"x", "=", "x", true},
		{"${node.nonsense}", "=", "", false},
		{"${attr.v}", "no such operand", "1.2.3", false},
	} {
		r := feasible.NewRule(c.left, c.operand, c.right)
		for range 2 { // the second answer comes from memory
			if got := r.Holds(n); got != c.want {
				t.Errorf("%s: %v", r, got)
			}
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "dc1", true},
		{"dc1", "dc1", true},
		{"dc1", "dc11", false},
		{"dc*", "dc1", true},
		{"*-east", "us-east", true},
		{"us-*-1", "us-east-1", true},
		{"us-*-1", "us-1", false},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"", "", true},
	} {
		if got := feasible.Glob(c.pattern, c.s); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.s, got)
		}
	}
}

func TestUniqueTargetsEscapeTheClass(t *testing.T) {
	for target, want := range map[string]bool{
		"${node.unique.name}": true, "${attr.unique.hostname}": true, "${meta.unique.x}": true, "${attr.kernel.name}": false, "${node.class}": false,
	} {
		if got := feasible.NewRule(target, "=", "x").Unique(); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

func FuzzRule(f *testing.F) {
	f.Add("${attr.a}", "version", ">= 1", "1.2")
	f.Fuzz(func(t *testing.T, left, operand, right, value string) {
		feasible.NewRule(left, operand, right).Holds(&api.Node{Attributes: map[string]string{"a": value}})
	})
}

// Metrics name a rule in three parts, of which the last may be empty.
func TestRulesAreNamedInThreeParts(t *testing.T) {
	for want, r := range map[string]*feasible.Rule{
		"${meta.x} is_set ": feasible.NewRule("${meta.x}", "is_set", ""),
		"${meta.x} = 1":     feasible.NewRule("${meta.x}", "is", "1"),
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Both sides are compared as integers when both are, else as numbers when both are, else as text.
func TestOrderIsThatOfNumbersWhenBothSidesAre(t *testing.T) {
	for _, c := range []struct {
		left, right string
		less        bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"-1", "0", true},
		{"9007199254740992", "9007199254740993", true},
		{"10.5", "9.5", false},
		{"9", "10.5", true},
		{"9.5", "10", true},
		{"1e3", "20", false},
		{"10", "9a", true},
		{"a", "5", false},
		{"10.5", "9a", true},
		{"a", "5.5", false},
		{"abc", "abd", true},
		{"7", "7", false},
	} {
		n := &api.Node{Meta: map[string]string{"x": c.left}}
		if got := feasible.NewRule("${meta.x}", "<", c.right).Holds(n); got != c.less {
			t.Errorf("%s < %s is %v", c.left, c.right, got)
		}
		if got := feasible.NewRule("${meta.x}", ">=", c.right).Holds(n); got == c.less {
			t.Errorf("%s >= %s is %v", c.left, c.right, got)
		}
	}
}
