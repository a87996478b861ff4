package agent

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/command/agent/config"
)

// socketMax is how long the path of a unix socket may be: sun_path holds 108 bytes with its end.
const socketMax = 107

// socketTail is what is added to the client's state directory for a plugin's socket.
const socketTail = "/csi/plugins/01234567-0123-0123-0123-0123456789ab/csi.sock"

// Modes of directories: what is secret is closed by itself, whatever stands above it.
const (
	secretMode = 0o700
	enterMode  = 0o711
)

// layout is where an agent keeps what.
type layout struct {
	data, server, state, alloc string
	// temporary is removed at the end; empty when the data stays.
	temporary string
}

// makeDirs creates the directories and fails with one clear line when that cannot be.
func makeDirs(cfg *config.Config) (layout, error) {
	var l layout
	data := cfg.DataDir
	if data == "" {
		dir, err := os.MkdirTemp("", "nomad-dev-")
		if err != nil {
			return l, fault.New(fault.Unavailable, "temporary data directory: %w", err)
		}
		data, l.temporary = dir, dir
	}
	if err := entered(data, cfg.DataDir == ""); err != nil {
		return l, err
	}
	l.data = data
	l.server = cmp.Or(cfg.Server.DataDir, filepath.Join(data, "server"))
	l.state = cmp.Or(cfg.Client.StateDir, filepath.Join(data, "client"))
	l.alloc = cmp.Or(cfg.Client.AllocDir, filepath.Join(data, "alloc"))
	needed := []string{}
	if cfg.Server.Enabled {
		needed = append(needed, l.server)
	}
	if cfg.Client.Enabled {
		if n := len(l.state) + len(socketTail); n > socketMax {
			return l, fault.New(fault.Invalid, "client state directory %s is %d bytes too long for the sockets of plugins: choose a shorter data_dir", l.state, n-socketMax)
		}
		needed = append(needed, l.state, l.alloc)
	}
	for _, dir := range needed {
		mode := fs.FileMode(secretMode)
		if dir == l.alloc {
			mode = enterMode
		}
		if err := writable(dir, mode); err != nil {
			return l, err
		}
	}
	return l, nil
}

// entered creates the data directory so that tasks of all users can reach their own directories. Only its owner can
// list what else it contains. The mode of an existing directory is left to the operator.
func entered(dir string, ours bool) error {
	_, err := os.Stat(dir)
	if err == nil && !ours {
		return nil
	}
	if err = errors.Join(os.MkdirAll(dir, enterMode), os.Chmod(dir, enterMode)); err != nil {
		return fault.New(fault.Invalid, "data directory: %w", err)
	}
	return nil
}

// closed is the first directory on the way to dir that others than its owner and group cannot enter, "" for none.
func closed(dir string) string {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode().Perm()&0o001 == 0 {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// writable creates the directory, gives it its mode and tries it.
func writable(dir string, mode fs.FileMode) error {
	_, err := os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, mode); err != nil {
		return fault.New(fault.Invalid, "data directory: %w", err)
	}
	if fresh || mode == secretMode {
		if err := os.Chmod(dir, mode); err != nil {
			return fault.New(fault.Invalid, "data directory: %w", err)
		}
	}
	probe, err := os.CreateTemp(dir, ".writable")
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return fault.New(fault.Invalid, "data directory %s is not writable: %w", dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// removeTemporary removes the data of a development agent. What is mounted there is a volume, and stays.
func removeTemporary(dir string, log hclog.Logger) {
	if err := dirs.Remove(dir); err != nil {
		log.Error("the temporary data directory stays", "dir", dir, "error", err)
	}
}
