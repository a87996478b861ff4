package hcl1_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

func TestBothSyntaxesGiveOneTree(t *testing.T) {
	t.Parallel()
	hcl, err := hcl1.Parse("f.hcl", []byte("\"a b\" = \"x\\\"${y}\" n = -5, yes = true\nlist = [1, \"2\",]\nblock { k = <<E\nline\nE\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	json, err := hcl1.Parse("f.json", []byte(`{"a b": "x\"${y}", "n": -5, "yes": true, "list": [1, "2"], "block": {"k": "line\n"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(hcl, json, cmpopts.IgnoreTypes(tree.Place{})); d != "" {
		t.Error(d)
	}
	if hcl[1].At != (tree.Place{Line: 1, Column: 19}) || hcl[4].Value.Items[0].At != (tree.Place{Line: 3, Column: 9}) || json[1].At != (tree.Place{Line: 1, Column: 20}) {
		t.Errorf("places are %+v and %+v", hcl, json)
	}
}

func TestPlacesInLargeJSON(t *testing.T) {
	t.Parallel()
	const lines = 500_000
	began := time.Now()
	items, err := hcl1.Parse("f", []byte("{"+strings.Repeat("\"a\": 1,\n", lines)+" \"b\": 2}"))
	if err != nil {
		t.Fatal(err)
	}
	if last := items[lines]; last.At != (tree.Place{Line: lines + 1, Column: 2}) || last.Value.At != (tree.Place{Line: lines + 1, Column: 7}) {
		t.Errorf("the last is at %+v", last)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	items, err := hcl1.Parse("f", []byte(`plugin "raw_exec" "x" { config {} }`))
	if err != nil || len(items) != 1 || items[0].Key != "plugin" || !cmp.Equal(items[0].Labels, []string{"raw_exec", "x"}) {
		t.Errorf("%+v %v", items, err)
	}
}

// What the parser takes in silence, and what it panics on, is an error too.
func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"a =", "a = # b", "a", "a {", "a = [", "}", "a = [}", "a = b", "a = \"x", "a = <<E", "a = \"\\q\"", "a = 99999999999999999999x", "= 1",
		"{", `{"a"}`, `{"a": 1} x`, "\x00", "a = \"\xff\"", "a = <<-\n-", strings.Repeat("a {", 101) + strings.Repeat("}", 101), strings.Repeat(`{"a":`, 101),
	} {
		if items, err := hcl1.Parse("f", []byte(source)); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "f:1:") {
			t.Errorf("%q: %+v %v", source, items, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a { b = [1, 2] }\n\"c\" = <<-E\n x\n E\n"))
	f.Add([]byte(`{"a": [{"b": null}]}`))
	f.Fuzz(func(t *testing.T, source []byte) {
		if _, err := hcl1.Parse("f", source); err != nil && !errors.Is(err, fault.Invalid) {
			t.Fatal(err)
		}
	})
}
