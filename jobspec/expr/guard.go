package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

const (
	// widthMax is the widest field of format and the deepest indent.
	widthMax = 1024
	// costMax is the highest cost of bcrypt: each step doubles its time.
	costMax = 12
	// digitsMax is how many digits parseint reads.
	digitsMax = 1000
	// pairsMax is how many elements may be compared with each other.
	pairsMax = 4096
	// aliasesMax is how many aliases a YAML text with anchors may have: they multiply.
	aliasesMax = 16
)

// toil is what a call weighs because of the time that it takes: a file has about a second.
var toil = map[string]func(args []cty.Value) int{
	"bcrypt":   func(a []cty.Value) int { return hashWeight << cost(a) },
	"distinct": func(a []cty.Value) int { return pairs(a) },
}

const (
	// hashWeight is what a bcrypt of cost 0 would weigh: less than sixteen of cost 10 are all that a file has.
	hashWeight = WeightMax >> 4 >> costUsual
	// costUsual is the cost of bcrypt where none is given, or one that is too low.
	costUsual, costLeast = 10, 4
)

// cost is that of a bcrypt; guards have seen that it is not too high.
func cost(args []cty.Value) int {
	v, ok := given(args, 1)
	if !ok || v.Type() != cty.Number {
		return costUsual
	}
	if n, _ := v.AsBigFloat().Int64(); n >= costLeast && n <= costMax {
		return int(n)
	}
	return costUsual
}

// pairs is what the comparisons of distinct weigh.
func pairs(args []cty.Value) int {
	v, ok := given(args, 0)
	if !ok || !v.CanIterateElements() {
		return 0
	}
	n := v.LengthInt()
	return 8 * n * n
}

var errWeight = errors.New("the expressions of the file produce too much")

// guards check before a call whether its result would be far larger than its arguments.
var guards = map[string]func(args []cty.Value) error{
	"format":     formatGuard,
	"formatlist": formatGuard,
	"indent":     func(a []cty.Value) error { return numberGuard(a, 0, widthMax, "spaces") },
	"bcrypt":     func(a []cty.Value) error { return numberGuard(a, 1, costMax, "cost") },
	"setproduct": productGuard,
	"join":       joinGuard,
	"distinct":   pairsGuard,
	"replace":    replaceGuard,
	"regex_replace": func(a []cty.Value) error {
		// A reference such as $0 puts back what was found, for every one found.
		return grows(len(text(a, 0))+1, len(text(a, 2))+strings.Count(text(a, 2), "$")*len(text(a, 0)))
	},
	"parseint": func(a []cty.Value) error {
		return atMost(len(text(a, 0)), digitsMax, "digits")
	},
	"yamldecode": func(a []cty.Value) error {
		if s := text(a, 0); strings.Contains(s, "&") {
			return atMost(strings.Count(s, "*"), aliasesMax, "aliases")
		}
		return nil
	},
}

// guarded is a function whose arguments are checked and weighed before, and whose result after.
func guarded(name string, f function.Function, m *Meter) function.Function {
	guard := guards[name]
	return function.New(&function.Spec{
		Description: f.Description(), Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			for _, a := range args {
				if !m.weigh(a) {
					return cty.NilType, errWeight
				}
			}
			if guard != nil {
				if err := guard(args); err != nil {
					return cty.NilType, err
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if weight := toil[name]; weight != nil && !m.toil(weight(args)) {
				return cty.DynamicVal, errWeight
			}
			v, err := f.Call(args)
			if err == nil && !m.weigh(v) {
				return cty.DynamicVal, errWeight
			}
			return v, err
		},
	})
}

func atMost(n, limit int, what string) error {
	if n > limit {
		return fmt.Errorf("%d %s, at most %d are allowed", n, what, limit)
	}
	return nil
}

// grows refuses a times b bytes beyond what a file may make.
func grows(a, b int) error {
	if b > 0 && a > WeightMax/b {
		return fmt.Errorf("the result is larger than %d MiB", WeightMax>>20)
	}
	return nil
}

// given returns an argument that is set.
func given(args []cty.Value, i int) (cty.Value, bool) {
	if i >= len(args) {
		return cty.NilVal, false
	}
	v, _ := args[i].Unmark()
	return v, v.IsKnown() && !v.IsNull()
}

func text(args []cty.Value, i int) string {
	if v, ok := given(args, i); ok && v.Type() == cty.String {
		return v.AsString()
	}
	return ""
}

func numberGuard(args []cty.Value, i, limit int, what string) error {
	if v, ok := given(args, i); ok && v.Type() == cty.Number {
		if n, _ := v.AsBigFloat().Int64(); n > int64(limit) {
			return fmt.Errorf("%s: %d, at most %d is allowed", what, n, limit)
		}
	}
	return nil
}

// formatGuard refuses widths and precisions of many characters.
func formatGuard(args []cty.Value) error {
	n, inside := 0, false
	for _, c := range text(args, 0) {
		switch {
		case c == '%':
			n, inside = 0, !inside
		case inside && c >= '0' && c <= '9':
			if n = n*10 + int(c-'0'); n > widthMax {
				return fmt.Errorf("a width of more than %d characters", widthMax)
			}
		case strings.ContainsRune("+-# [].", c):
			n = 0
		default:
			n, inside = 0, false
		}
	}
	return nil
}

func productGuard(args []cty.Value) error {
	n := len(args) * valueWeight
	for i := range args {
		v, ok := given(args, i)
		if !ok || !v.CanIterateElements() {
			return nil
		}
		length := v.LengthInt()
		if err := grows(n, length); err != nil {
			return err
		}
		n *= max(length, 1)
	}
	return nil
}

func joinGuard(args []cty.Value) error {
	n := 0
	for i := range args[1:] {
		if v, ok := given(args, i+1); ok && v.CanIterateElements() {
			n += v.LengthInt()
		}
	}
	return grows(n, len(text(args, 0)))
}

func pairsGuard(args []cty.Value) error {
	if v, ok := given(args, 0); ok && v.CanIterateElements() {
		return atMost(v.LengthInt(), pairsMax, "elements")
	}
	return nil
}

func replaceGuard(args []cty.Value) error {
	return grows(strings.Count(text(args, 0), text(args, 1)), len(text(args, 2)))
}
