package dirs_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/dirs"
)

// withTask makes an allocation with the directories of one task below a path that is longer than a socket address.
func withTask(t *testing.T) (a dirs.Alloc, secrets string) {
	t.Helper()
	a, err := dirs.New(filepath.Join(t.TempDir(), strings.Repeat("long", 30))).Alloc("a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Build(); err != nil {
		t.Fatal(err)
	}
	if err := a.BuildTask("t"); err != nil {
		t.Fatal(err)
	}
	return a, a.Task("t").Secrets()
}

func TestSocketIsMadeAgainAndRemoved(t *testing.T) {
	a, secrets := withTask(t)
	for range 2 { // the second agent finds the socket of the first
		l, err := a.Listen("t")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		info, err := os.Lstat(filepath.Join(secrets, "api.sock"))
		if err != nil || info.Mode() != fs.ModeSocket|0o666 {
			t.Fatalf("socket %v, %v", info, err)
		}
		t.Chdir(secrets)
		if c, err := net.Dial("unix", "api.sock"); err != nil {
			t.Error(err)
		} else {
			_ = c.Close()
		}
	}
	for range 2 {
		if err := a.RemoveSocket("t"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(secrets, "api.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestSocketFollowsNoLinks(t *testing.T) {
	t.Run("of the socket", func(t *testing.T) {
		a, secrets := withTask(t)
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(secrets, "api.sock")); err != nil {
			t.Fatal(err)
		}
		l, err := a.Listen("t")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 {
			t.Errorf("the target of the link is %v, %v", info, err)
		}
	})
	t.Run("of the directory", func(t *testing.T) {
		a, secrets := withTask(t)
		elsewhere := t.TempDir()
		if err := os.Remove(secrets); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, secrets); err != nil {
			t.Fatal(err)
		}
		if l, err := a.Listen("t"); err == nil {
			_ = l.Close()
			t.Error("a socket was made through a link")
		}
		if list, _ := os.ReadDir(elsewhere); len(list) > 0 {
			t.Errorf("files behind the link: %v", list)
		}
	})
	t.Run("a directory instead", func(t *testing.T) {
		a, secrets := withTask(t)
		if err := os.MkdirAll(filepath.Join(secrets, "api.sock", "x"), 0o777); err != nil {
			t.Fatal(err)
		}
		if l, err := a.Listen("t"); err == nil {
			_ = l.Close()
			t.Error("a socket was made over a directory")
		}
	})
}
