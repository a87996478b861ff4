package page

import (
	"context"
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// filterBytes bounds the length of a filter: the time to read one grows with its length times its depth, and cannot be cut.
const filterBytes = 16 << 10

// filter is the expression of a client (go-bexpr). A selector whose path meets a nil pointer, an absent key or an index
// out of range selects nothing: then == is false and != is true. A field that its type does not have is an error.
type filter struct {
	expression grammar.Expression
	// leaves compare one value each: that of the field named v.
	leaves map[*grammar.MatchExpression]*bexpr.Evaluator
}

// readFilter reads an expression; nil matches all rows.
func readFilter(ctx context.Context, expression string) (f *filter, err error) {
	if expression == "" {
		return nil, nil
	}
	if len(expression) > filterBytes {
		return nil, fault.New(fault.Invalid, "filter has %d bytes; at most %d are read", len(expression), filterBytes)
	}
	err = cpulimit.Long(ctx, func() error {
		read, err := grammar.Parse("", []byte(expression), grammar.MaxExpressions(2_000_000))
		if err != nil {
			return unreadable(err)
		}
		f = &filter{leaves: map[*grammar.MatchExpression]*bexpr.Evaluator{}}
		f.expression, _ = read.(grammar.Expression)
		return nil
	})
	return f, err
}

func unreadable(err error) error {
	return fault.New(fault.Invalid, "failed to read filter expression: %w", err)
}

// matches reports whether the expression holds for a row.
func (f *filter) matches(row any) (bool, error) {
	if f == nil {
		return true, nil
	}
	ok, err := f.holds(f.expression, scope{value: reflect.ValueOf(row)})
	if err != nil {
		return false, unreadable(err)
	}
	return ok, nil
}

// scope is where selectors begin: at a name that an expression around binds, or else at the fields of the value.
type scope struct {
	value reflect.Value
	name  string
	outer *scope
}

func (f *filter) holds(e grammar.Expression, in scope) (bool, error) {
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		ok, err := f.holds(e.Operand, in)
		return !ok, err
	case *grammar.BinaryExpression:
		left, err := f.holds(e.Left, in)
		if err != nil || left == (e.Operator == grammar.BinaryOpOr) {
			return left, err
		}
		return f.holds(e.Right, in)
	case *grammar.CollectionExpression:
		return f.ofEach(e, in)
	case *grammar.MatchExpression:
		return f.compares(e, in)
	}
	return false, fault.New(fault.Invalid, "expression %T is not known", e)
}

// compares evaluates one comparison.
func (f *filter) compares(e *grammar.MatchExpression, in scope) (bool, error) {
	value, err := in.selected(e.Selector)
	if err != nil {
		return false, err
	}
	if !value.IsValid() {
		return e.Operator.NotPresentDisposition(), nil
	}
	leaf := f.leaves[e]
	if leaf == nil {
		if leaf, err = bexpr.CreateEvaluator(leafOf(e)); err != nil {
			return false, err
		}
		f.leaves[e] = leaf
	}
	ok, err := leaf.Evaluate(map[string]any{"v": value.Interface()})
	if err != nil {
		return false, fault.New(fault.Invalid, "%s: %w", e.Selector, err)
	}
	return ok, nil
}

// leafOf is a comparison as text, of the field named v.
func leafOf(e *grammar.MatchExpression) string {
	value := ""
	if e.Value != nil {
		value = strings.ReplaceAll(strconv.Quote(e.Value.Raw), `\"`, `\x22`)
	}
	switch e.Operator {
	case grammar.MatchIn:
		return value + " in v"
	case grammar.MatchNotIn:
		return value + " not in v"
	}
	return "v " + map[grammar.MatchOperator]string{
		grammar.MatchEqual: "==", grammar.MatchNotEqual: "!=", grammar.MatchContains: "contains", grammar.MatchNotContains: "not contains",
		grammar.MatchMatches: "matches", grammar.MatchNotMatches: "not matches", grammar.MatchIsEmpty: "is empty",
		grammar.MatchIsNotEmpty: "is not empty", grammar.MatchIsNil: "is nil", grammar.MatchIsNotNil: "is not nil",
	}[e.Operator] + " " + value
}

// ofEach evaluates an expression for the elements of a list or a map: whether it holds for all, or for any.
func (f *filter) ofEach(e *grammar.CollectionExpression, in scope) (bool, error) {
	all := e.Op == grammar.CollectionOpAll
	value, err := in.selected(e.Selector)
	if err != nil || !value.IsValid() {
		return all, err
	}
	isMap := value.Kind() == reflect.Map
	if !isMap && value.Kind() != reflect.Slice && value.Kind() != reflect.Array {
		return false, fault.New(fault.Invalid, "%s is neither a list nor a map", e.Selector)
	}
	for key, element := range value.Seq2() {
		b, first := e.NameBinding, element
		if isMap {
			first = key
		}
		inner := in
		for _, bound := range []scope{{first, b.Default, nil}, {key, b.Index, nil}, {element, b.Value, nil}} {
			if bound.name != "" {
				outer := inner
				inner = scope{bound.value, bound.name, &outer}
			}
		}
		if ok, err := f.holds(e.Inner, inner); err != nil || ok != all {
			return ok, err
		}
	}
	return all, nil
}

// selected is the value that a selector names; the zero Value when there is none.
func (s scope) selected(selector grammar.Selector) (reflect.Value, error) {
	path := selector.Path
	for s.outer != nil {
		if len(path) > 0 && path[0] == s.name {
			path = path[1:]
			break
		}
		s = *s.outer
	}
	v, t := s.value, s.value.Type()
	for _, part := range path {
		v, t = pointed(v, t)
		var err error
		if v, t, err = inside(v, t, part); err != nil || t == nil {
			return reflect.Value{}, err
		}
	}
	v, _ = pointed(v, t)
	return v, nil
}

// pointed follows pointers and interfaces. Below a nil value it follows the type alone.
func pointed(v reflect.Value, t reflect.Type) (reflect.Value, reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface && v.IsValid() && !v.IsNil() {
		if v.IsValid() {
			v = v.Elem()
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		} else {
			t = v.Type()
		}
	}
	if t.Kind() == reflect.Interface {
		v = reflect.Value{}
	}
	return v, t
}

// inside is the part of a value by its name, and the type of the part; no type when nothing is known of it.
func inside(v reflect.Value, t reflect.Type, part string) (reflect.Value, reflect.Type, error) {
	var none reflect.Value
	switch t.Kind() {
	case reflect.Struct:
		field, ok := t.FieldByName(part)
		if !ok || !field.IsExported() {
			return none, nil, fault.New(fault.Invalid, "%s has no field %q", t.Name(), part)
		}
		if v.IsValid() {
			if found, err := v.FieldByIndexErr(field.Index); err == nil {
				return found, field.Type, nil
			}
		}
		return none, field.Type, nil
	case reflect.Map:
		if v.IsValid() && t.Key().Kind() == reflect.String {
			v = v.MapIndex(reflect.ValueOf(part).Convert(t.Key()))
		}
		return v, t.Elem(), nil
	case reflect.Slice, reflect.Array:
		i, err := strconv.Atoi(part)
		if err != nil {
			return none, nil, fault.New(fault.Invalid, "%q is not the index of a list", part)
		}
		if !v.IsValid() || i < 0 || i >= v.Len() {
			return none, t.Elem(), nil
		}
		return v.Index(i), t.Elem(), nil
	case reflect.Interface:
		return none, nil, nil
	}
	return none, nil, fault.New(fault.Invalid, "a %s has no field %q", t.Kind(), part)
}
