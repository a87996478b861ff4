package supervise_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// TestInstall holds for both kinds of builds: with and without the program inside.
func TestInstall(t *testing.T) {
	dir := t.TempDir() + "/made"
	path, err := supervise.Install(dir)
	if errors.Is(err, fault.Unimplemented) {
		t.Skip("this build carries no program: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := supervise.Install(dir)
	if err != nil || again != path {
		t.Errorf("second install: %s %v, want %s", again, err, path)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := supervise.Install(dir); err != nil {
		t.Fatal(err)
	}
	// Without an agent on descriptor 3 the program ends at once with code 2.
	var exit *exec.ExitError
	if err := exec.Command(path).Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("the installed program: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files %v %v", files, err)
	}
}

func TestFindWithoutProcess(t *testing.T) {
	if _, err := supervise.Find(t.Context(), t.TempDir()+"/nobody"); !errors.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestAttachAfterPIDReuse(t *testing.T) {
	id := supervise.Ident{State: t.TempDir() + "/x", TaskID: "x", PID: os.Getpid(), Ticks: 1, TaskPID: os.Getpid(), TaskTicks: 1}
	if _, err := supervise.Attach(t.Context(), id); !errors.Is(err, fault.NotFound) {
		t.Errorf("attach: %v, want not found: our pid with another start time", err)
	}
}
