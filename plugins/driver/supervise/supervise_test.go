package supervise_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
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
	// Without an agent on descriptor 3 the program ends at once with a code of its own.
	var exit *exec.ExitError
	if err := exec.Command(path).Run(); !errors.As(err, &exit) || exit.ExitCode() != frame.ExitUnasked {
		t.Errorf("the installed program: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files %v %v", files, err)
	}
}

func TestDamagedProgramIsInstalledAgain(t *testing.T) {
	dir := t.TempDir()
	path, err := supervise.Install(dir)
	if errors.Is(err, fault.Unimplemented) {
		t.Skip("this build carries no program: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]func() error{
		"zeros, as after a loss of power": func() error { return os.WriteFile(path, make([]byte, len(whole)), 0o700) },
		"another mode":                    func() error { return os.Chmod(path, 0o777) },
		"a link":                          func() error { return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path)) },
	}
	for name, do := range damage {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if _, err := supervise.Install(dir); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(path)
		if st, err := os.Lstat(path); err != nil || st.Mode() != 0o700 || !bytes.Equal(got, whole) {
			t.Errorf("%s: the program stays damaged: %v %v", name, st.Mode(), err)
		}
	}
}

func TestTryToldWhatCannotSupervise(t *testing.T) {
	good, err := supervise.Install(t.TempDir())
	if errors.Is(err, fault.Unimplemented) {
		t.Skip("this build carries no program: ", err)
	}
	if err := supervise.Try(t.Context(), good); err != nil {
		t.Errorf("the program itself: %v", err)
	}
	closed := t.TempDir() + "/closed"
	if err := os.WriteFile(closed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/bin/true", "/bin/false", closed, "/nonexistent"} {
		if err := supervise.Try(t.Context(), path); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", path, err)
		}
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
