package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `package sample

func (b *box) holds(n int, list []string) bool {
	if n < 0 || len(list) == 0 && !b.open {
		return true
	}
	for i := 0; i < n; i++ {
		b.put(list[i])
	}
	switch {
	case n > 7:
		b.count++
	}
	if b.full() {
		b.log.Warn("full")
	}
	return false
}
`

func TestFindsWhatMayBeChanged(t *testing.T) {
	sites, err := find("box.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sites {
		got = append(got, strings.TrimPrefix(s.key, "box.go\tbox.holds\t"))
	}
	want := []string{
		"drop\tn < 0\t1", "drop\tlen(list) == 0 && !b.open\t1", "limit\tn < 0\t1", "drop\tlen(list) == 0\t1", "drop\t!b.open\t1",
		"negate\ttrue\t1", "leave out\tb.put(list[i])\t1", "limit\tn > 7\t1", "leave out\tb.count++\t1", "negate\tb.full()\t1", "negate\tfalse\t1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAllChangesAtOnceAreOneProgramWithTheSameLines(t *testing.T) {
	sites, err := find("box.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	out := rewrite([]byte(sample), choose(sites, 100))
	if _, err := parser.ParseFile(token.NewFileSet(), "box.go", out, 0); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Count(out, []byte("\n")) != strings.Count(sample, "\n") || bytes.Contains(out, []byte("%d")) {
		t.Errorf("rewritten:\n%s", out)
	}
}

func TestTheChoiceDoesNotDependOnOtherCode(t *testing.T) {
	few, err := find("box.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	more, err := find("box.go", []byte(sample+"\nfunc other(n int) { if n == 1 { work() } }\n"))
	if err != nil {
		t.Fatal(err)
	}
	keys := func(list []*site) (out []string) {
		for _, s := range list {
			if !strings.Contains(s.key, "other") {
				out = append(out, s.key)
			}
		}
		return out
	}
	if a, b := keys(choose(few, 100)), keys(choose(more, 100)); !slices.Equal(a, b) {
		t.Errorf("%q\n%q", a, b)
	}
}

// A package whose test looks at one of two limits: the other survives, and is an error until it is known.
func TestASurvivorIsAnErrorUntilItIsKnown(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":            "module sample\n\ngo 1.26\n",
		"box/box.go":        "package box\n\nfunc Small(n int) bool { return n >= 0 && n < 9 }\n",
		"box/box_test.go":   "package box\n\nimport \"testing\"\n\nfunc TestSmall(t *testing.T) {\n\tif Small(9) || !Small(8) || Small(-1) {\n\t\tt.Fail()\n\t}\n}\n",
		"cores.tsv":         "box\t9\tbox\n",
		"known/nothing.txt": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "")
	var out bytes.Buffer
	m := &mutation{out: &out}
	if err := m.run(t.Context(), "cores.tsv", "survivors.txt", false); err == nil || !slices.Equal(m.survivors, []string{"box/box.go\tSmall\tlimit\tn >= 0\t1"}) {
		t.Fatalf("%v, survivors %q\n%s", err, m.survivors, &out)
	}
	for _, write := range []bool{true, false} {
		if err := (&mutation{out: &out}).run(t.Context(), "cores.tsv", "survivors.txt", write); err != nil {
			t.Fatalf("write %v: %v\n%s", write, err, &out)
		}
	}
}
