package jobspec_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
)

func withMeta(expression string) string {
	return "job \"j\" {\n group \"g\" {\n  meta = { a = " + expression + " }\n  task \"t\" {\n driver = \"x\"\n }\n }\n}\n"
}

func jsonMeta(text string) string {
	return `{"job": {"j": {"group": {"g": {"task": {"t": {"driver": "x"}}, "meta": {"a": "` + text + `"}}}}}}`
}

// tooDeep are texts that nest without brackets, or where a lexer of the wrong language sees none. A stack that
// overflows ends the whole process; no recover helps.
func tooDeep() map[string]string {
	const n = 150_000
	repeat := strings.Repeat
	deep := map[string]string{
		"signs on lines":           withMeta("(" + repeat("-\n", 3*n) + "1)"),
		"nots on lines":            withMeta("(" + repeat("!\n", 3*n) + "true)"),
		"signs behind comments":    withMeta("(" + repeat("-#\n", 2*n) + "1)"),
		"signs in a list":          withMeta("[" + repeat("-\n", 3*n) + "1]"),
		"signs in a call":          withMeta("abs(" + repeat("-\n", 3*n) + "1)"),
		"signs in a template":      withMeta(`"${` + repeat("-\n", 3*n) + `1}"`),
		"signs in a for":           withMeta("{\nfor x in [1] : x => " + repeat("-\n", 3*n) + "1}"),
		"conditions on lines":      withMeta("(" + repeat("true ? 1\n : ", n/3) + "2)"),
		"sums":                     withMeta(repeat("1+", 3*n) + "1"),
		"sums on lines":            withMeta("(" + repeat("1+\n", 2*n) + "1)"),
		"indexes":                  withMeta("local.a" + repeat("[x]", 2*n)),
		"splats":                   withMeta("local.a" + repeat("[*]", 2*n)),
		"attribute splats":         withMeta("local.a" + repeat(".*", 2*n)),
		"conditions in a template": withMeta(`"` + repeat("%{if true}", n/3) + repeat("%{endif}", n/3) + `"`),
		"loops in a heredoc":       withMeta("<<E\n" + repeat("%{for x in y~}", n/3) + "\nE\n"),
		"JSON: brackets":           jsonMeta(`\u0024{` + repeat("(", 3*n) + "1" + repeat(")", 3*n) + `}`),
		"JSON: signs":              jsonMeta(`\u0024{` + repeat("-", 6*n) + `1}`),
		"JSON: conditions":         jsonMeta(repeat(`%\u007bif true}`, n/4) + repeat("%{endif}", n/4)),
		"JSON: lists":              `{"a": "${\"", "job": ` + repeat("[", 3*n) + repeat("]", 3*n) + "}",
		"JSON: a key":              strings.Replace(jsonMeta("1"), `"a":`, `"\u0024{`+repeat("-", 6*n)+`1}":`, 1),
		"JSON: a type":             `{"variable": {"x": {"type": "` + repeat("-", 6*n) + `1"}}, ` + jsonMeta("1")[1:],
		"JSON: a nested type":      `{"variable": {"x": {"type": "` + repeat("list(", n) + "string" + repeat(")", n) + `"}}, ` + jsonMeta("1")[1:],
	}
	return deep
}

// What people write in one expression, or in many, is no chain.
func TestLongTextsThatNestLittleAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"lines":      withMeta("1\n" + strings.Repeat("b = -1 # - -\n", 3000)),
		"a list":     withMeta("join(\"\", [" + strings.Repeat("\"${-1}\",\n", 3000) + "])"),
		"a template": withMeta("\"" + strings.Repeat("%{if true}${1 + 1}%{endif}-(", 3000) + "\""),
		"a sum":      withMeta(strings.Repeat("1 + ", 900) + "1"),
		"JSON":       jsonMeta(strings.Repeat("%{if true}${1 + 1}%{endif}-(", 3000)),
	} {
		if name == "lines" {
			text = strings.Replace(text, "{ a = 1", "{\n a = 1", 1)
		}
		if _, err := jobspec.Parse(jobspec.Input{Path: "job.hcl", Body: []byte(text)}); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

func TestTextsThatNestDeeplyEndNoProcess(t *testing.T) {
	if name := os.Getenv("NESTED_TEXT"); name != "" {
		_, err := jobspec.Parse(jobspec.Input{Path: "job.hcl", Body: []byte(tooDeep()[name])})
		if err == nil || !strings.Contains(err.Error(), "nested deeper") {
			t.Fatalf("%.300v", err)
		}
		return
	}
	for name, text := range tooDeep() {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestTextsThatNestDeeplyEndNoProcess$")
			child.Env = append(os.Environ(), "NESTED_TEXT="+name)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%d bytes: %v: %.300s", len(text), err, out)
			}
		})
	}
}
