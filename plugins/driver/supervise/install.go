package supervise

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/program"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const programName = "nomad-supervise"

//go:embed bin
var embedded embed.FS

// Install installs the supervising program in dir and returns its path; see [program.Install].
func Install(dir string) (string, error) { return program.Install(embedded, programName, dir) }

// Try runs an installed program, which ends at once with a code of its own because no agent speaks to it.
func Try(ctx context.Context, path string) error { return try(ctx, path, nil) }

// TryNamespaces is Try in namespaces such as isolated tasks have.
func TryNamespaces(ctx context.Context, path string) error {
	return try(ctx, path, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	})
}

func try(ctx context.Context, path string, attr *syscall.SysProcAttr) error {
	cmd := exec.CommandContext(ctx, path)
	cmd.SysProcAttr = attr
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit) && exit.ExitCode() == frame.ExitUnasked:
		return nil
	case errors.Is(err, fs.ErrPermission) && attr != nil:
		return fault.New(fault.Unavailable, "this node does not let the agent make namespaces: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Unavailable, "the supervising program cannot be executed: %w (is the file system of %s mounted noexec?)", err, filepath.Dir(path))
	case err == nil:
		return fault.New(fault.Unavailable, "the supervising program %s is another program", path)
	default:
		return fault.New(fault.Unavailable, "the supervising program does not run: %w", err)
	}
}
