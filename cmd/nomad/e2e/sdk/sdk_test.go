package sdk_test

import (
	"bufio"
	"bytes"
	"flag"
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

// excluded are tests of locks against fakes, which fail by chance and take others with them, and tests of what this
// version does not have that take long to fail. TestNodes_Info wants a second to begin between its start and the
// registration of the agent's node, which takes a tenth of one.
const excluded = "AcquireLock|FailedRenewal|Test_EarlyReturn|TestStart_Protected|ACL|TestVariable|TestAgentProfile|TestAgentTrace|TestAgentCPUProfile|TestEvent|TestCSIVolumes_CRUD|AutopilotState|TestNodes_Info$"

// allAtOnce is how many of the SDK's tests, each with an agent of its own, run side by side.
const allAtOnce = "4"

// tries is how often tests that are listed and have failed are run again, each time at another part of the second:
// some want the clock to have gone on by one, which a quick start does not take.
const tries = 12

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
		if !listed[name] && !*rewrite { // by chance, or for good
			t.Logf("%s passes and is not in passing.txt: add it when it always does (or run with -rewrite)", name)
		}
	}
	if *rewrite {
		write(t, passed)
	}
	t.Logf("%d of the SDK's tests pass", len(passed))
	if t.Failed() {
		t.Log(output)
	}
}

func compile(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sdk.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, module).CombinedOutput(); err != nil {
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

// passing are the tests that passed; the SDK's own helpers leave out those that found nothing to test.
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
