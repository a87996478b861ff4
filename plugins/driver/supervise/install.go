package supervise

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"

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
func Try(ctx context.Context, path string) error {
	var exit *exec.ExitError
	switch err := exec.CommandContext(ctx, path).Run(); {
	case errors.As(err, &exit) && exit.ExitCode() == frame.ExitUnasked:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Unavailable, "the supervising program cannot be executed: %w (is the file system of %s mounted noexec?)", err, filepath.Dir(path))
	case err == nil:
		return fault.New(fault.Unavailable, "the supervising program %s is another program", path)
	default:
		return fault.New(fault.Unavailable, "the supervising program does not run: %w", err)
	}
}
