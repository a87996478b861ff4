package templates_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/templates"
)

func TestFind(t *testing.T) {
	t.Parallel()
	f := templates.Files{Task: "/a/id/web", Shared: "/a/id/alloc"}
	for name, want := range map[string]string{
		"local/x": "/a/id/web local/x", "/local/x": "/a/id/web local/x", "/secrets/x": "/a/id/web secrets/x", "/a/id/web/local/x": "/a/id/web local/x",
		"/alloc/data/x": "/a/id/alloc data/x", "../alloc/data/x": "/a/id/alloc data/x", "/a/id/alloc/x": "/a/id/alloc x", "local/../../alloc/x": "/a/id/alloc x",
		"/etc/passwd": "/a/id/web etc/passwd", "../other/local/x": "", "../../../etc/passwd": "", "/a/id/other/x": "/a/id/web a/id/other/x", "../web2/x": "",
	} {
		dir, rel, err := f.Find(name)
		if got := strings.TrimSpace(dir + " " + rel); got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestReadStaysInTheDirectories(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	f := templates.Files{Task: filepath.Join(base, "web"), Shared: filepath.Join(base, "alloc")}
	err := errors.Join(
		os.MkdirAll(f.Task, 0o700), os.MkdirAll(f.Shared, 0o700), os.WriteFile(filepath.Join(base, "host"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(f.Shared, "ok"), []byte("text"), 0o600), os.Symlink("../host", filepath.Join(f.Task, "link")),
		os.Symlink(base, filepath.Join(f.Task, "dir")), syscall.Mkfifo(filepath.Join(f.Task, "pipe"), 0o600),
		os.WriteFile(filepath.Join(f.Task, "big"), make([]byte, 5<<20), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]templates.File{"/alloc/ok": {Content: "text"}, "none": {Missing: "there is no such file in the directory of the task"}} {
		if got := f.ReadFor(name); got != want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for _, name := range []string{"link", "dir/host", "pipe", "big", "../host", "."} {
		if got := f.ReadFor(name); got.Refused == "" {
			t.Errorf("%s: got %.100v", name, got)
		}
	}
}

func TestParseEnv(t *testing.T) {
	t.Parallel()
	got, err := templates.ParseEnv("# comment\n\nA=1\nexport B = two words # not this\nC=\"x\\ny\" # c\nD='$k \"#'\nE=\nF.g=a=b#c\r\n")
	want := map[string]string{"A": "1", "B": "two words", "C": "x\ny", "D": `$k "#`, "E": "", "F.g": "a=b#c"}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %q, %v", got, err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
	for text, want := range map[string]string{
		"A=1\nword": "line 2 is not of the form NAME=value", "1A=x": "line 1", "A=\"x": "no closing quote", "A='x": "no closing quote", "A='x'y": "continues after",
	} {
		if _, err := templates.ParseEnv(text); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add("A=\"x\\u0041\"\nB='y'")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = templates.ParseEnv(text) })
}
