package sdk_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/hashicorp/nomad/api" // the module whose tests these are
)

const module = "github.com/hashicorp/nomad/api"

var rewrite = flag.Bool("rewrite", false, "add the tests that pass to passing.txt")

// excluded are tests that are not run:
//   - tests of locks against fakes, which fail at random;
//   - tests of features that this version does not have, which fail after a long wait;
//   - TestNodes_Info, which expects its agent to take more than a second to register;
//   - TestEvent_Stream, which expects each evaluation at an index of its own, and TestEventStream_PayloadValue, which expects
//     its agent to register only after the test has subscribed;
//   - TestAgent_ForceLeave, which passes or fails with the load of the machine;
//   - four tests with an empty body.
const excluded = "AcquireLock|FailedRenewal|Test_EarlyReturn|TestStart_Protected|Sentinel|License|TestAgentProfile|TestAgentTrace|TestAgentCPUProfile|TestEvent_Stream$|TestEventStream_PayloadValue$|TestCSIVolumes_CRUD|TestNodes_Info$|TestAgent_ForceLeave$" +
	"|TestJobs_Services$|TestServiceRegistrations_(Get|List|Delete)$"

// allAtOnce is how many of the SDK's tests, each with an agent of its own, run side by side.
const allAtOnce = "4"

// tries bounds how often a listed test that failed runs again. Some tests fail when the agent starts and replies within
// the same second of the clock.
const tries = 3

var summary string

func TestMain(m *testing.M) {
	code := m.Run()
	fmt.Println(summary)
	os.Exit(code)
}

func TestSDK(t *testing.T) {
	program := os.Getenv("NOMAD_BIN")
	if program == "" {
		t.Skip("NOMAD_BIN names the program that is tested: run make sdk")
	}
	binary, dir := compile(t), source(t)
	path := t.TempDir()
	if err := os.Symlink(program, filepath.Join(path, "nomad")); err != nil {
		t.Fatal(err)
	}
	listed := read(t)
	run := func(args ...string) (passed map[string]bool, output string) {
		cmd := exec.Command(binary, append([]string{"-test.v", "-test.timeout", "10m", "-test.parallel", allAtOnce}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput() // tests that are not listed fail
		return passing(out), string(out)
	}
	passed, output := run("-test.skip", excluded)
	for range tries {
		missing := slices.DeleteFunc(slices.Sorted(maps.Keys(listed)), func(name string) bool { return passed[name] })
		if len(missing) == 0 {
			break
		}
		t.Logf("run again: %v", missing)
		time.Sleep(rand.N(time.Second))
		again, more := run("-test.run", "^("+strings.Join(missing, "|")+")$")
		maps.Copy(passed, again)
		output += more
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !passed[name] {
			t.Errorf("%s is in passing.txt and does not pass", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		if !listed[name] && !*rewrite {
			t.Errorf("%s passes and is not in passing.txt: add it (or run with -rewrite)", name)
		}
	}
	if *rewrite {
		write(t, passed)
	}
	withAgent, pass := testsWithAgent(t, dir), 0
	for _, name := range withAgent {
		if passed[name] {
			pass++
		}
	}
	summary = fmt.Sprintf("%d of %d tests that use an agent pass, and %d tests that use none", pass, len(withAgent), len(passed)-pass)
	if t.Failed() {
		t.Log(output)
	}
}

// compile builds the tests with those of quotas, which need the build tag.
func compile(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sdk.test")
	if out, err := exec.Command("go", "test", "-tags", "ent", "-c", "-o", binary, module).CombinedOutput(); err != nil {
		t.Fatalf("compile the SDK's tests: %v\n%s", err, out)
	}
	return binary
}

// source is where the SDK's module lies: its tests read files there.
func source(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// testsWithAgent returns the tests in dir that start an agent, directly or by functions that they call.
func testsWithAgent(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]map[string]bool{} // by function: the names in its body
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				calls[fn.Name.Name] = map[string]bool{}
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						calls[fn.Name.Name][id.Name] = true
					}
					return true
				})
			}
		}
	}
	starts := map[string]bool{"NewTestServer": true}
	for before := 0; before < len(starts); {
		before = len(starts)
		for name, body := range calls {
			for callee := range body {
				starts[name] = starts[name] || starts[callee]
			}
			if !starts[name] {
				delete(starts, name)
			}
		}
	}
	for name := range calls {
		if starts[name] && strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	return names
}

// passing returns the tests that passed.
func passing(output []byte) map[string]bool {
	passed := map[string]bool{}
	for s := bufio.NewScanner(bytes.NewReader(output)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "--- PASS: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			passed[name] = true
		}
	}
	return passed
}

func read(t *testing.T) map[string]bool {
	t.Helper()
	body, err := os.ReadFile("passing.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, name := range strings.Fields(string(body)) {
		listed[name] = true
	}
	return listed
}

func write(t *testing.T, passed map[string]bool) {
	t.Helper()
	if err := os.WriteFile("passing.txt", []byte(strings.Join(slices.Sorted(maps.Keys(passed)), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
