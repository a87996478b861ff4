package logs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/logs"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
}

func open(dir string) func() (*os.File, error) {
	return func() (*os.File, error) {
		f, err := os.Open(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fault.New(fault.NotFound, "no directory %s", dir)
		}
		return f, err
	}
}

func dirOf(t *testing.T, r logs.Request) string {
	t.Helper()
	f, err := r.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Name()
}

// all reads pieces until the end.
func all(t *testing.T, r logs.Request) (string, api.LogCursor) {
	t.Helper()
	var out strings.Builder
	for range 1000 {
		p, err := logs.Read(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(p.Data)
		r.Cursor = p.Cursor
		if p.End {
			return out.String(), p.Cursor
		}
	}
	t.Fatal("no end")
	return "", api.LogCursor{}
}

// The official command line follows a log from offset 0 of its end, and expects the newest file as a whole.
func TestFollowersOfTheEndSeeTheNewestFile(t *testing.T) {
	r := sample(t)
	r.Origin = "end"
	for wait, want := range map[time.Duration]string{time.Second: "cccc\n", 0: ""} {
		r.Wait = wait
		p, err := logs.Read(t.Context(), r)
		if err != nil || string(p.Data) != want || p.File != "alloc/logs/web.stdout.10" {
			t.Errorf("wait %s: %+v, %v", wait, p, err)
		}
	}
}

func sample(t *testing.T) logs.Request {
	dir := t.TempDir()
	write(t, dir, "web.stdout.8", "aaaa\n")
	write(t, dir, "web.stdout.9", "bbbb\n")
	write(t, dir, "web.stdout.10", "cccc\n")
	write(t, dir, "web.stderr.0", "other\n")
	write(t, dir, "web.stdout.x", "no")
	write(t, dir, "web.stdout.01", "no")
	write(t, dir, "web2.stdout.0", "no")
	return logs.Request{Open: open(dir), Task: "web", Kind: "stdout"}
}

func TestReadOverFiles(t *testing.T) {
	for _, c := range []struct {
		origin string
		offset int64
		want   string
	}{
		{"", 0, "aaaa\nbbbb\ncccc\n"},
		{"start", 5, "bbbb\ncccc\n"},
		{"start", 7, "bb\ncccc\n"},
		{"start", 15, ""},
		{"start", 99, ""},
		{"end", 0, ""},
		{"end", 3, "cc\n"},
		{"end", 5, "cccc\n"},
		{"end", 6, "\ncccc\n"},
		{"end", 99, "aaaa\nbbbb\ncccc\n"},
	} {
		for _, limit := range []int64{0, 1, 3} {
			r := sample(t)
			r.Origin, r.Offset, r.Limit = c.origin, c.offset, limit
			if got, _ := all(t, r); got != c.want {
				t.Errorf("%s %d limit %d: %q, want %q", c.origin, c.offset, limit, got, c.want)
			}
		}
	}
}

func TestCursorSurvivesRotationAndRemoval(t *testing.T) {
	r := sample(t)
	r.Limit = 3
	p, err := logs.Read(t.Context(), r)
	if err != nil || string(p.Data) != "aaa" || p.File != "alloc/logs/web.stdout.8" || p.End {
		t.Fatalf("%+v %v", p, err)
	}
	r.Cursor = p.Cursor
	for _, gone := range []string{"web.stdout.8", "web.stdout.9"} {
		if err := os.Remove(filepath.Join(dirOf(t, r), gone)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dirOf(t, r), "web.stdout.11", "dddd\n")
	got, cursor := all(t, r)
	if got != "cccc\ndddd\n" {
		t.Errorf("after rotation %q", got)
	}
	write(t, dirOf(t, r), "web.stdout.11", "more\n")
	r.Cursor = cursor
	if got, _ := all(t, r); got != "more\n" {
		t.Errorf("after growth %q", got)
	}
}

func TestWaitEndsWithNewOutput(t *testing.T) {
	r := sample(t)
	r.Origin = "end"
	p, err := logs.Read(t.Context(), r)
	if err != nil || !p.End {
		t.Fatalf("%+v %v", p, err)
	}
	r.Cursor, r.Wait = p.Cursor, time.Minute
	go write(t, dirOf(t, r), "web.stdout.11", "new\n")
	p, err = logs.Read(t.Context(), r)
	if err != nil || string(p.Data) != "new\n" || p.File != "alloc/logs/web.stdout.11" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestWaitForTheFirstFile(t *testing.T) {
	later := filepath.Join(t.TempDir(), "later")
	r := logs.Request{Open: open(later), Task: "web", Kind: "stdout", Wait: time.Minute}
	go func() {
		if err := os.Mkdir(later, 0o755); err == nil {
			write(t, later, "web.stdout.0", "first\n")
		}
	}()
	if p, err := logs.Read(t.Context(), r); err != nil || string(p.Data) != "first\n" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestWaitEndsWithDoneAndContext(t *testing.T) {
	r := sample(t)
	_, r.Cursor = all(t, r)
	r.Wait = time.Minute
	done := make(chan struct{})
	close(done)
	r.Done = done
	if p, err := logs.Read(t.Context(), r); err != nil || len(p.Data) != 0 || !p.End {
		t.Errorf("%+v %v", p, err)
	}
	r.Done = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := logs.Read(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	r.Wait = 60 * time.Millisecond
	if p, err := logs.Read(t.Context(), r); err != nil || !p.End {
		t.Errorf("bounded wait: %+v %v", p, err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", "secret\n")
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "web.stdout.0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "web.stdout.1"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := logs.Request{Open: open(dir), Task: "web", Kind: "stdout"}
	if p, err := logs.Read(t.Context(), r); !errors.Is(err, fault.NotFound) {
		t.Errorf("%+v %v", p, err)
	}
}

func TestBadRequests(t *testing.T) {
	good := sample(t)
	for name, change := range map[string]func(*logs.Request){
		"kind":   func(r *logs.Request) { r.Kind = "stdin" },
		"task":   func(r *logs.Request) { r.Task = "../web" },
		"empty":  func(r *logs.Request) { r.Task = "" },
		"origin": func(r *logs.Request) { r.Origin = "middle" },
		"offset": func(r *logs.Request) { r.Offset = -1 },
		"limit":  func(r *logs.Request) { r.Limit = -1 },
		"cursor": func(r *logs.Request) { r.Cursor = api.LogCursor{Started: true, Offset: -5} },
	} {
		r := good
		change(&r)
		if _, err := logs.Read(t.Context(), r); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	for _, c := range []api.LogCursor{{Started: true, Index: 99}, {Started: true, Index: 9, Offset: 1 << 40}} {
		r := good
		r.Cursor = c
		if _, err := logs.Read(t.Context(), r); err != nil {
			t.Errorf("cursor %+v: %v", c, err)
		}
	}
}

func TestFollowerSeesWhatIsWrittenAfterATruncation(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "web.stdout.0", "1234567890")
	r := logs.Request{Open: open(dir), Task: "web", Kind: "stdout"}
	_, r.Cursor = all(t, r)
	if err := os.Truncate(filepath.Join(dir, "web.stdout.0"), 0); err != nil {
		t.Fatal(err)
	}
	if text, _ := all(t, r); text != "" {
		t.Errorf("after the truncation: %q", text)
	}
	write(t, dir, "web.stdout.0", "new")
	text, c := all(t, r)
	if text != "new" || c.Offset != 3 {
		t.Errorf("after the truncation: %q at %+v", text, c)
	}
}
