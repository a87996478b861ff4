package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/api"
)

// operands are all operators of constraints, with their other spellings.
var operands = []string{
	"", "=", "==", "is", "!=", "not", "<", "<=", ">", ">=", api.ConstraintRegex, api.ConstraintVersion,
	api.ConstraintSemver, api.ConstraintSetContains, api.ConstraintSetContainsAll, api.ConstraintSetContainsAny,
	api.ConstraintAttributeIsSet, api.ConstraintAttributeIsNotSet, api.ConstraintDistinctHosts, api.ConstraintDistinctProperty,
}

// semver reports a bound that is no SemVer 2 version.
func semver(bounds string) error {
	if _, err := version.NewConstraint(bounds); err != nil {
		return err
	}
	for bound := range strings.SplitSeq(bounds, ",") {
		if _, err := version.NewSemver(strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(bound), "<>=!~"))); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) constraints(where string, all []*api.Constraint) {
	for _, k := range all {
		c.wrong(!slices.Contains(operands, k.Operand), "%s: constraint operator %q is not known", where, k.Operand)
		switch k.Operand {
		case api.ConstraintDistinctHosts:
			if _, err := strconv.ParseBool(k.RTarget); k.RTarget != "" {
				c.wrong(err != nil, "%s: distinct_hosts %q is not true or false", where, k.RTarget)
			}
			continue
		case api.ConstraintDistinctProperty:
			n, err := strconv.Atoi(k.RTarget)
			c.wrong(k.RTarget != "" && (err != nil || n < 1), "%s: distinct_property count %q is not a positive number", where, k.RTarget)
		default:
			c.operand(where, "constraint", k.Operand, k.RTarget)
		}
		c.wrong(k.LTarget == "", "%s: a constraint has no attribute", where)
	}
}

// operand checks what an operator of a constraint or an affinity compares with.
func (c *check) operand(where, what, operator, value string) {
	switch operator {
	case api.ConstraintRegex:
		_, err := regexp.Compile(value)
		c.wrong(err != nil, "%s: %s regexp: %v", where, what, err)
	case api.ConstraintVersion:
		_, err := version.NewConstraint(value)
		c.wrong(err != nil, "%s: %s %s %q: %v", where, what, operator, value, err)
	case api.ConstraintSemver:
		err := semver(value)
		c.wrong(err != nil, "%s: %s %s %q: %v", where, what, operator, value, err)
	}
}
