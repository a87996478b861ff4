package jobspec_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/jobspec"
)

// inMeta is a job with one expression, on line 4.
func inMeta(expression string) string {
	return "job \"j\" {\n  group \"g\" {\n    task \"t\" { driver = \"x\" }\n    meta = { a = " + expression + " }\n  }\n}"
}

// doubled is a chain of locals, each made of the one before.
func doubled(first, next string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "locals {\n a0 = %s\n", first)
	for i := range 60 {
		fmt.Fprintf(&b, " a%d = %s\n", i+1, strings.ReplaceAll(next, "A", fmt.Sprintf("local.a%d", i)))
	}
	return b.String() + "}\n" + inMeta("length(local.a60)")
}

func nested(loops int, value string) string {
	return strings.Repeat("[for x in range(1000): ", loops) + value + strings.Repeat("]", loops)
}

var hostile = map[string]string{
	"nested loops":                  inMeta("length(" + nested(5, "1") + ")"),
	"nested loops of mistakes":      inMeta("length(" + nested(4, `1 + "x"`) + ")"),
	"nested loops behind try":       inMeta("try(length(" + nested(5, "1") + "), 1)"),
	"nested loops without result":   inMeta("length([for x in range(1000): [for y in range(1000): [for z in range(1000): 1 if false]]])"),
	"comparisons in loops":          "locals { l = range(1000) }\n" + inMeta("length([for x in range(1000): local.l == [for y in local.l: y]])"),
	"splats in loops":               "locals { l = range(1000) }\n" + inMeta("length([for x in range(1000): length(local.l[*])])"),
	"loops in a template":           inMeta(`"` + strings.Repeat("%{ for x in range(1000) }", 4) + "x" + strings.Repeat("%{ endfor }", 4) + `"`),
	"loops in a variable":           "variable \"v\" { default = " + nested(5, "1") + "}\n" + inMeta(`"x"`),
	"range":                         inMeta("length(range(0, 1e12))"),
	"many ranges":                   inMeta("[" + strings.Repeat("range(1000) == range(1000),", 3000) + "]"),
	"wide format":                   inMeta(`format("%999999999d", 1)`),
	"precise format":                inMeta(`format("%.999999999f", 1)`),
	"wide format in a list":         inMeta(`formatlist("%-999999999s", ["a"])`),
	"deep indent":                   inMeta(`indent(999999999, "a\nb")`),
	"setproduct":                    "locals { l = range(1000) }\n" + inMeta("length(setproduct(local.l, local.l, local.l, local.l))"),
	"doubled texts":                 doubled(`"0123456789"`, `"${A}${A}"`),
	"doubled lists":                 doubled(`["x"]`, `[A, A]`),
	"doubled objects":               doubled(`{a = "x"}`, `{a = A, b = A}`),
	"doubled concat":                doubled(`["x"]`, `concat(A, A)`),
	"doubled join":                  doubled(`"0123456789"`, `join(A, [A, A, A])`),
	"doubled replace":               doubled(`"00"`, `replace(A, "0", A)`),
	"doubled json":                  doubled(`"\"\""`, `jsonencode(A)`),
	"doubled regex replace":         doubled(`"0123456789"`, `regex_replace(A, ".", A)`),
	"squared numbers":               doubled(`1e300`, `A * A`),
	"long number":                   inMeta(`"a${1e600000000}"`),
	"slow hash":                     inMeta(`bcrypt("x", 31)`),
	"many hashes":                   inMeta(`[for i in range(1024) : bcrypt("x", 12)][0]`),
	"many hashes of no cost":        inMeta(`[for i in range(1024) : bcrypt("x", 0)][0]`),
	"many comparisons":              "locals { l = range(1000) }\n" + inMeta(`length([for i in range(1000) : distinct(local.l)])`),
	"long number to read":           inMeta(`parseint(join("", [for x in range(1000): "9999999999"]), 10)`),
	"YAML of aliases":               inMeta(`length(yamldecode("a: &a [x,x]\n` + aliases() + `"))`),
	"dynamic blocks":                dynamic(),
	"one template of a large local": "locals {\n l = join(\"\", [for x in range(1000): \"0123456789012345678901234567890123456789\"])\n}\n" + inMeta(`"`+strings.Repeat("${local.l}", 5000)+`"`),
	"many locals":                   manyLocals(),
	"many variables":                strings.Repeat("variable \"v\" {}\n", 3000) + inMeta(`"x"`),
	"JSON":                          `{"locals": {"l": "${range(1000)}"}, "job": {"j": {"meta": {"a": "${length([for x in local.l: [for y in local.l: [for z in local.l: 1]]])}"}}}}`,
	"JSON doubled":                  jsonDoubled(),
}

func aliases() string {
	var b strings.Builder
	for i := range 24 {
		fmt.Fprintf(&b, `%c: &%c [*%c,*%c]\n`, 'b'+i, 'b'+i, 'a'+i, 'a'+i)
	}
	return b.String()
}

func dynamic() string {
	open := ""
	for _, block := range []string{"group", "task", "template"} {
		open += "dynamic \"" + block + "\" {\n for_each = range(1000)\n"
		if block != "template" {
			open += " labels = [\"x${" + block + ".value}\"]\n"
		}
		open += "content {\n"
	}
	return "job \"j\" {\n" + open + strings.Repeat("}\n}\n", 3) + "}"
}

func manyLocals() string {
	var b strings.Builder
	b.WriteString("locals {\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "a%d = local.a%d\n", i, i+1)
	}
	return b.String() + "a3000 = 1\n}\n" + inMeta(`"x"`)
}

func jsonDoubled() string {
	b := `{"locals": {"a0": "0123456789"`
	for i := range 60 {
		b += fmt.Sprintf(`, "a%d": "${local.a%d}${local.a%d}"`, i+1, i, i)
	}
	return b + `}, "job": {"j": {"meta": {"a": "${local.a60}"}}}}`
}

var placed = regexp.MustCompile(`^job\.hcl:\d+:\d+: `)

var limit = regexp.MustCompile(`more than|exceed|at most|larger than|out of range`)

// hash is the processor time of a parse that makes one expensive hash, of which a file has four. It is as much longer on
// a slow machine, or with the race detector, as whatever a file makes.
func hash(t *testing.T) time.Duration {
	t.Helper()
	before := cputimetest.Process()
	if _, err := jobspec.Parse(jobspec.Input{Body: []byte(inMeta(`bcrypt("x", 12)`))}); err != nil {
		t.Fatal(err)
	}
	return cputimetest.Process() - before
}

func TestHostileFilesAreRefusedSoon(t *testing.T) {
	most := 16 * hash(t)
	for name, body := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cputimetest.Process()
			_, err := jobspec.Parse(jobspec.Input{Body: []byte(body)})
			took := cputimetest.Process() - began
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("accepted after %v", took)
			}
			if !limit.MatchString(err.Error()) {
				t.Errorf("it does not name the limit: %.300s", err)
			}
			if fault.Of(err) != fault.Invalid || !placed.MatchString(err.Error()) || len(err.Error()) > 4000 {
				t.Errorf("%v: %.300s", fault.Of(err), err)
			}
			if took > most {
				t.Errorf("took %v of a processor, at most %v are expected", took, most)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 1024 {
				t.Errorf("allocated %d MiB in all", made)
			}
			t.Logf("%v, %d MiB: %.200s", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, err)
		})
	}
}

func TestExpressionsOfHonestSizeAreAccepted(t *testing.T) {
	for name, body := range map[string]string{
		"loop in a loop": inMeta("length([for x in range(100): [for y in range(100): \"${x}-${y}\"]])"),
		"functions":      inMeta(`join(",", formatlist("%05d %s", range(3), [for p in setproduct(["a"], ["b", "c", "d"]): join("", p)]))`),
		"many locals": "locals {\n" + func() string {
			b := "a0 = \"x\"\n"
			for i := range 500 {
				b += fmt.Sprintf("a%d = local.a%d\n", i+1, i)
			}
			return b
		}() + "}\n" + inMeta("local.a500"),
		"large text":     inMeta("<<E\n" + strings.Repeat("0123456789 ${NOMAD_ALLOC_ID}\n", 5000) + "E\n"),
		"large list":     inMeta("length([" + strings.Repeat("1,", 20000) + "])"),
		"percent signs":  inMeta(`format("100%% of %3d%%1999", 5)`),
		"JSON templates": `{"variable": {"v": {"default": "x"}}, "job": {"j": {"group": {"g": {"task": {"t": {"driver": "${var.v}-${NOMAD_ALLOC_ID}"}}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := jobspec.Parse(jobspec.Input{Body: []byte(body)}); err != nil {
				t.Fatalf("%.300s", err)
			}
		})
	}
}

func TestAParseStopsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	asked := 0
	_, err := jobspec.Parse(jobspec.Input{Body: []byte(inMeta(`length([for x in range(1000): [for y in range(1000): x]])`)), Stopped: func() bool {
		asked++
		return asked > 100
	}})
	if err == nil || !strings.Contains(err.Error(), "the request was canceled") || asked > 200 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
