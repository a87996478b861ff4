package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package sample

import "testing"

func TestPasses(t *testing.T)  { t.Log("unheard") }
func TestSkips(t *testing.T)   { t.Skip("no fuse here") }
func TestFails(t *testing.T)   { t.Error("heard") }
func TestInParts(t *testing.T) { t.Run("one", func(t *testing.T) { t.Skip("not this one") }) }
`

// logOf is the JSON log of the sample's tests with these names.
func logOf(t *testing.T, text, names string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "a_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-vet", "off", "-json", "-run", names, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=")
	out, _ := cmd.Output()
	return out
}

func follow(log []byte, strict bool, allowed ...allowance) (string, error) {
	var out bytes.Buffer
	err := newReport(&out, allowed, "plain", strict).follow(bytes.NewReader(log))
	return out.String(), err
}

func TestSkippedTestsAreCounted(t *testing.T) {
	log := logOf(t, sample, "Passes|Skips|Parts")
	out, err := follow(log, false)
	if err != nil || !strings.Contains(out, "4 tests, 0 failed, 2 skipped, of which 2 are not expected to") ||
		!strings.Contains(out, "no fuse here") || strings.Contains(out, "unheard") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := follow(log, true); err == nil {
		t.Errorf("an unexpected skip is no error:\n%s", out)
	}
	all := []allowance{{"sample", "TestSkips", "plain"}, {"sample", "TestInParts/*", "all"}}
	if out, err := follow(log, true, all...); err != nil || !strings.Contains(out, "2 skipped, of which 0") {
		t.Errorf("%v\n%s", err, out)
	}
	all[0].run = "race"
	if out, err := follow(log, true, all...); err == nil {
		t.Errorf("expected in another run only:\n%s", out)
	}
}

func TestFailuresAreShownAndAnError(t *testing.T) {
	out, err := follow(logOf(t, sample, "Passes|Fails"), false)
	if err == nil || !strings.Contains(out, "heard") || !strings.Contains(out, "--- FAIL: TestFails") || !strings.Contains(out, "failed 1 of 1 times: sample TestFails") || strings.Contains(out, "unheard") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = follow(logOf(t, "package sample\n\nfunc broken( {\n", "."), false)
	if err == nil || !strings.Contains(out, "a_test.go:3") {
		t.Errorf("a package that does not compile: %v\n%s", err, out)
	}
	if out, err = follow(logOf(t, sample+"\nfunc TestDies(t *testing.T) { panic(\"oh\") }\n", "Dies"), false); err == nil || !strings.Contains(out, "panic: oh") {
		t.Errorf("a panic: %v\n%s", err, out)
	}
}

// TestFailuresAreSaidAgainAtTheEnd: the log that a test printed may be long, and whoever reads it sees its end.
func TestFailuresAreSaidAgainAtTheEnd(t *testing.T) {
	out, err := follow(logOf(t, sample, "Fails"), false)
	_, end, found := strings.Cut(out, "failed 1 of 1 times: sample TestFails\n")
	if err == nil || !found || !strings.Contains(end, "a_test.go:7: heard") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSlowestAreNamed(t *testing.T) {
	out, err := follow([]byte(`
{"Action":"pass","Package":"p/a","Test":"TestShort","Elapsed":4.9}
{"Action":"pass","Package":"p/a","Test":"TestLong/part","Elapsed":90}
{"Action":"pass","Package":"p/a","Test":"TestLong","Elapsed":90}
{"Action":"pass","Package":"p/a","Elapsed":95.2}
{"Action":"pass","Package":"p/b","Test":"TestLonger","Elapsed":91.25}
{"Action":"pass","Package":"p/b","Elapsed":4}
`), false)
	want := "slowest packages:\n   95.2s  p/a\nslowest tests:\n   91.2s  p/b TestLonger\n   90.0s  p/a TestLong\n"
	if err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
}
