package logs

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string) *file {
	t.Helper()
	l, err := openFile(dir, "web.stdout", 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func write(t *testing.T, l *file, text string) {
	t.Helper()
	if err := l.write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// content joins the files of a log in their order.
func content(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for n := range 20 {
		text, err := os.ReadFile(filepath.Join(dir, (&file{prefix: "web.stdout"}).name(n)))
		if err == nil {
			out.Write(text)
		}
	}
	return out.String()
}

func TestFilesRotate(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	write(t, l, "0123456789abcdefghij")
	if l.at != (Position{1, 10}) {
		t.Errorf("at %+v", l.at)
	}
	l = open(t, dir) // numbers go on
	write(t, l, "KLMNOPQRSTUVWXYZ")
	if l.at != (Position{3, 6}) || content(t, dir) != "abcdefghijKLMNOPQRSTUVWXYZ" {
		t.Errorf("at %+v: %q", l.at, content(t, dir))
	}
}

func TestBytesThatTheFilesHaveAreSkipped(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		removed             bool
	}{
		{"none", "0123", "", false},
		{"same file", "0123", "45", false},
		{"next file", "0123", "456789abcd", false},
		{"at the end of a file", "0123456789", "ab", false},
		{"first file removed", "0123", "456789abcdefghijKLMNOPQRSTUVW", true},
	} {
		dir := t.TempDir()
		l := open(t, dir)
		write(t, l, c.before)
		from := l.at
		write(t, l, c.after)
		l = open(t, dir)
		if l.skip = l.since(from); l.skip != int64(len(c.after)) {
			t.Errorf("%s: %d bytes to skip, want %d", c.name, l.skip, len(c.after))
		}
		write(t, l, c.after+"!!")
		all := c.before + c.after + "!!"
		if got := content(t, dir); !strings.HasSuffix(all, got) || !c.removed && got != all {
			t.Errorf("%s: %q, want %q", c.name, got, all)
		}
	}
}

func TestWhatIsNoRegularFileIsReplaced(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "victim")
	for name, plant := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(outside, path) },
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o666) },
	} {
		dir := t.TempDir()
		if err := plant(dir + "/web.stdout.0"); err != nil {
			t.Fatal(err)
		}
		write(t, open(t, dir), "text")
		if content(t, dir) != "text" {
			t.Errorf("%s: %q", name, content(t, dir))
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a link was followed")
	}
	place := t.TempDir()
	if err := os.Symlink(t.TempDir(), place+"/logs"); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(place+"/logs", "web.stdout", 10, 3); err == nil {
		t.Error("a directory that is a link was followed")
	}
}

func TestPiecesAreRead(t *testing.T) {
	frame := func(kind byte, text string) string {
		size := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		return string(append([]byte{kind, 0, 0, 0}, size...)) + text
	}
	from := bufio.NewReader(strings.NewReader(frame(2, "2026-01-02T03:04:05.000000006Z a b\n") + frame(1, "no time")))
	kind, piece, err := nextFrame(from)
	at, text := timeOf(piece)
	if err != nil || kind != 2 || at != 1767323045000000006 || string(text) != "a b\n" {
		t.Errorf("%d %d %q %v", kind, at, text, err)
	}
	kind, piece, err = nextFrame(from)
	if at, text := timeOf(piece); err != nil || kind != 1 || at != 0 || string(text) != "no time" {
		t.Errorf("%d %d %q %v", kind, at, text, err)
	}
	if _, _, err := nextFrame(bufio.NewReader(strings.NewReader("\x01\x00\x00\x00\xff\xff\xff\xff"))); err == nil {
		t.Error("a piece of 4 GiB is read")
	}
}
