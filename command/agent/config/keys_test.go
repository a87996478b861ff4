package config_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/keys.tsv anew")

// keysFile lists every key of the compatible configuration, of which kind it is and what becomes of it: done (kept, for
// what it does), refused, or warned (ignored, with a warning that names it).
const keysFile = "testdata/keys.tsv"

// No key is taken in silence: it is kept, or named in a warning, or it keeps the agent from starting.
func TestEveryKeyIsDoneOrRefusedOrNamedInAWarning(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(keysFile)
	if err != nil {
		t.Fatal(err)
	}
	rows := [][]string{}
	labelled := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		row := strings.Split(strings.TrimSpace(line), "\t")
		rows = append(rows, row)
		if at, ok := strings.CutSuffix(row[0], ".<label>"); ok {
			labelled[at] = true
		}
	}
	var out strings.Builder
	for _, row := range rows {
		key, kind := row[0], row[1]
		got, why := fateOf(key, kind, labelled)
		if want := row[len(row)-1]; got != want && !*rewrite {
			t.Errorf("%s (%s) is %s: %s; the list says %s", key, kind, got, why, want)
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\n", key, kind, got)
	}
	if *rewrite {
		if err := os.WriteFile(keysFile, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fateOf tries a key with two values: one that is kept makes two configurations.
func fateOf(key, kind string, labelled map[string]bool) (fate, why string) {
	var kept []*config.Config
	values, special := valuesOfKey[key]
	if !special {
		values = valuesOf(kind)
	}
	for _, value := range values {
		c := config.Default()
		err := c.Decode("a.hcl", []byte(fileOf(key, value, labelled)))
		switch {
		case err != nil && strings.Contains(err.Error(), "not in this version"):
			return "refused", err.Error()
		case err != nil:
			return "an error", err.Error()
		case len(c.Warnings) > 0:
			named := strings.Join(c.Warnings, "\n")
			if block, _, _ := strings.Cut(key, "."); !strings.Contains(named, block) {
				return "a warning that does not name it", named
			}
			return "warned", named
		}
		kept = append(kept, c)
	}
	if len(kept) == 2 && reflect.DeepEqual(kept[0], kept[1]) {
		return "taken in silence", "its value changes nothing"
	}
	return "done", ""
}

// valuesOfKey are values of keys that take some only.
var valuesOfKey = map[string][]string{
	"audit.sink.type":               {`= "file"`},
	"audit.sink.format":             {`= "json"`},
	"audit.sink.delivery_guarantee": {`= "enforced"`, `= "best-effort"`},
	"audit.sink.path":               {`= "/a"`, `= "/b"`},
	"audit.sink.mode":               {`= "0600"`, `= "0640"`},
	"audit.filter.type":             {`= "HTTPEvent"`},
	"audit.filter.endpoints":        {`= ["/a"]`, `= ["/b"]`},
	"audit.filter.stages":           {`= ["OperationReceived"]`, `= ["*"]`},
	"audit.filter.operations":       {`= ["GET"]`, `= ["*"]`},
	"telemetry.prefix_filter":       {`= ["+a"]`, `= ["-a"]`},
}

// valuesOf are two values of a kind, as they are written; blocks and labels have one that is empty.
func valuesOf(kind string) []string {
	switch kind = strings.TrimSuffix(kind, "?"); {
	case kind == "bool":
		return []string{"= true", "= false"}
	case kind == "int", kind == "uint", kind == "float64":
		return []string{"= 7", "= 8"}
	case kind == "list(string)":
		return []string{`= ["x"]`, `= ["y"]`}
	case strings.HasPrefix(kind, "map("):
		return []string{"{\n k = \"v\"\n}", "{\n k = \"w\"\n}"}
	case strings.HasPrefix(kind, "block"), strings.HasPrefix(kind, "list(block"), kind == "label":
		return []string{""}
	}
	return []string{`= "17s"`, `= "18s"`}
}

// fileOf is a file that says one key only.
func fileOf(key, value string, labelled map[string]bool) string {
	parts := strings.Split(strings.TrimSuffix(key, ".<label>"), ".")
	text := ""
	if value != "" {
		text = parts[len(parts)-1] + " " + value
		parts = parts[:len(parts)-1]
	}
	for i, part := range slices.Backward(parts) {
		label := ""
		if labelled[strings.Join(parts[:i+1], ".")] {
			label = ` "l"`
		}
		if part == "keyring" { // its labels are known
			label = ` "aead"`
		}
		text = part + label + " {\n" + text + "\n}"
	}
	return text
}
