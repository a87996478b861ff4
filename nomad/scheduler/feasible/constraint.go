package feasible

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/api"
)

// Rule is a constraint or the condition of an affinity, ready to be asked of many nodes. It remembers
// the answer per pair of values, so an expensive operand costs once per distinct value.
type Rule struct {
	text        string
	operand     string
	left, right Target
	known       map[[2]string]bool
	test        func(left, right string) bool
}

// NewRule makes a rule of its parts.
func NewRule(left, operand, right string) *Rule {
	r := &Rule{operand: operandOf(operand), left: ParseTarget(left), right: ParseTarget(right)}
	r.text = fmt.Sprintf("%s %s %s", left, r.operand, right)
	r.test = testOf(r.operand)
	return r
}

// operandOf is the one spelling of an operand that has several.
func operandOf(operand string) string {
	switch operand {
	case "", "==", "is":
		return "="
	case "not":
		return "!="
	}
	return operand
}

// String is the rule as it is shown in placement metrics.
func (r *Rule) String() string { return r.text }

// Unique reports whether nodes of one class may answer differently.
func (r *Rule) Unique() bool { return r.left.Unique() || r.right.Unique() }

// Holds reports whether the rule holds on the node.
func (r *Rule) Holds(n *api.Node) bool {
	left, haveLeft := r.left.Value(n)
	right, haveRight := r.right.Value(n)
	switch r.operand {
	case api.ConstraintAttributeIsSet:
		return haveLeft
	case api.ConstraintAttributeIsNotSet:
		return !haveLeft
	case "!=":
		return haveLeft != haveRight || left != right
	case "=":
		return haveLeft && haveRight && left == right
	}
	if !haveLeft || !haveRight || r.test == nil {
		return false
	}
	key := [2]string{left, right}
	holds, asked := r.known[key]
	if !asked {
		if r.known == nil {
			r.known = map[[2]string]bool{}
		}
		holds = r.test(left, right)
		r.known[key] = holds
	}
	return holds
}

// testOf is nil for operands that do not exist: such a constraint never holds.
func testOf(operand string) func(left, right string) bool {
	switch operand {
	case "<", "<=", ">", ">=":
		return func(l, r string) bool { return ordered(operand, compareLoose(l, r)) }
	case api.ConstraintRegex:
		return matches()
	case api.ConstraintVersion:
		return inVersions
	case api.ConstraintSemver:
		return inSemver
	case api.ConstraintSetContains, api.ConstraintSetContainsAll:
		return containsAll
	case api.ConstraintSetContainsAny:
		return containsAny
	}
	return nil
}

func ordered(operand string, c int) bool {
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "=", "":
		return c == 0
	case "!=":
		return c != 0
	}
	return false
}

// compareLoose compares as integers when both are, else as floats when both are, else as text.
func compareLoose(l, r string) int {
	if li, err := strconv.ParseInt(l, 10, 64); err == nil {
		if ri, err := strconv.ParseInt(r, 10, 64); err == nil {
			return compare(li, ri)
		}
	}
	if lf, err := strconv.ParseFloat(l, 64); err == nil {
		if rf, err := strconv.ParseFloat(r, 64); err == nil {
			return compare(lf, rf)
		}
	}
	return strings.Compare(l, r)
}

func compare[T int64 | float64](l, r T) int {
	switch {
	case l < r:
		return -1
	case l > r:
		return 1
	}
	return 0
}

func matches() func(l, r string) bool {
	compiled := map[string]*regexp.Regexp{}
	return func(l, r string) bool {
		re, seen := compiled[r]
		if !seen {
			if made, err := regexp.Compile(r); err == nil {
				re = made
			}
			compiled[r] = re
		}
		return re != nil && re.MatchString(l)
	}
}

func inVersions(l, r string) bool {
	v, err := version.NewVersion(l)
	if err != nil {
		return false
	}
	wanted, err := version.NewConstraint(r)
	return err == nil && wanted.Check(v)
}

// inSemver compares by the rules of SemVer 2 alone: a prerelease is older than its release.
func inSemver(l, r string) bool {
	v, err := version.NewSemver(l)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(r, ",") {
		part = strings.TrimSpace(part)
		bare := strings.TrimLeft(part, "<>=!")
		bound, err := version.NewSemver(strings.TrimSpace(bare))
		if err != nil || !ordered(part[:len(part)-len(bare)], v.Compare(bound)) {
			return false
		}
	}
	return true
}

func setOf(list string) []string {
	parts := strings.Split(list, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func containsAll(l, r string) bool {
	have := setOf(l)
	return !slices.ContainsFunc(setOf(r), func(want string) bool { return !slices.Contains(have, want) })
}

func containsAny(l, r string) bool {
	have := setOf(l)
	return slices.ContainsFunc(setOf(r), func(want string) bool { return slices.Contains(have, want) })
}
