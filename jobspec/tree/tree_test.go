package tree_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/jobspec/tree"
)

func TestAssign(t *testing.T) {
	number := func(s string) tree.Value { return tree.Value{Kind: tree.Number, Text: s} }
	text := func(s string) tree.Value { return tree.Value{Text: s} }
	list := func(all ...tree.Value) tree.Value { return tree.Value{Kind: tree.List, List: all} }
	null := tree.Value{Kind: tree.Null}
	for _, c := range []struct {
		v    tree.Value
		want any
		err  string
	}{
		{number("5"), 5, ""},
		{text("5"), 5, ""},
		{text("010"), 10, ""},
		{number("0x10"), 16, ""},
		{number("1.0"), 1, ""},
		{null, 0, ""},
		{number("1.5"), 0, "whole number"},
		{text("x"), 0, "a number is needed, not a string"},
		{list(), 0, "a number is needed, not a list"},
		{number("300"), uint8(0), "300 is out of range"},
		{number("-1"), uint(0), "out of range"},
		{number("200"), int8(0), "out of range"},
		{number("1e999"), 0.0, "a number"},
		{number("1.5"), 1.5, ""},
		{number("1.10"), "1.10", ""},
		{text("true"), true, ""},
		{text("yes"), false, "true or false"},
		{text("2m"), 2 * time.Minute, ""},
		{number("7"), 7 * time.Nanosecond, ""},
		{text("7"), time.Duration(0), "not a duration"},
		{list(text("a"), number("1")), []string{"a", "1"}, ""},
		{list(null), []string(nil), "element 0: null"},
		{text("a"), []string(nil), "a list is needed"},
	} {
		dst := reflect.New(reflect.TypeOf(c.want)).Elem()
		switch err := tree.Assign(dst, c.v); {
		case c.err == "" && (err != nil || !reflect.DeepEqual(dst.Interface(), c.want)):
			t.Errorf("%+v as %T: %v, %v", c.v, c.want, dst, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%+v as %T: error %v, want %s", c.v, c.want, err, c.err)
		}
	}
}
