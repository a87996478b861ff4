package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode().Perm()
}

func TestOthersEnterTheDataDirectoryAndSeeNothing(t *testing.T) {
	base, err := os.MkdirTemp("", "a") // short, for the sockets of plugins
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	data := filepath.Join(base, "data")
	cfg := &config.Config{DataDir: data}
	cfg.Server.Enabled, cfg.Client.Enabled = true, true
	for _, loosen := range []bool{false, true} {
		if loosen {
			for _, dir := range []string{"server", "client"} {
				if err := os.Chmod(filepath.Join(data, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		l, err := makeDirs(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for dir, want := range map[string]fs.FileMode{data: 0o711, l.server: 0o700, l.state: 0o700, l.alloc: 0o711} {
			if got := mode(t, dir); got != want {
				t.Errorf("%s has mode %v, want %v", dir, got, want)
			}
		}
		if at := closed(l.alloc); at != base {
			t.Errorf("the way to %s is closed at %q, want %s", l.alloc, at, base)
		}
	}
	if err := os.Chmod(data, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := makeDirs(cfg); err != nil || mode(t, data) != 0o750 || closed(filepath.Join(data, "alloc")) != data {
		t.Errorf("mode %v of a directory that was there, error %v", mode(t, data), err)
	}
}

func TestOthersEnterTheDirectoriesOfADevelopmentAgent(t *testing.T) {
	cfg := &config.Config{}
	cfg.Client.Enabled = true
	l, err := makeDirs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(l.temporary) }()
	if mode(t, l.temporary) != 0o711 || mode(t, l.alloc) != 0o711 || mode(t, l.state) != 0o700 {
		t.Errorf("modes %v, alloc %v, state %v", mode(t, l.temporary), mode(t, l.alloc), mode(t, l.state))
	}
}
