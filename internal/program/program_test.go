package program_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/program"
)

func TestInstalledProgramRuns(t *testing.T) {
	t.Parallel()
	script := []byte("#!/bin/sh\nexit 3\n")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, carried := range map[string]fstest.MapFS{
		"plain":      {"bin/prog": {Data: script}},
		"compressed": {"bin/prog.gz": {Data: packed.Bytes()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, damage := range []string{"", "#!/bin/sh\nexit 4\n"} {
				path, err := program.Install(carried, "prog", dir)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(path)
				if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
					t.Errorf("the program ended with %v, want exit code 3", err)
				}
				if err := os.WriteFile(path, []byte(damage), 0o700); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if _, err := program.Install(fstest.MapFS{}, "prog", t.TempDir()); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("a build without the program: %v, want class Unimplemented", err)
	}
}

// A child that another goroutine forks while the program is written would hold it open for writing, and nothing can execute it
// meanwhile ("text file busy").
func TestProgramsRunWhileOthersAreInstalled(t *testing.T) {
	t.Parallel()
	carried := fstest.MapFS{"bin/prog": {Data: []byte("#!/bin/sh\nexit 0\n" + strings.Repeat("#", 1<<16))}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				path, err := program.Install(carried, "prog", t.TempDir())
				if err != nil {
					t.Error(err)
					return
				}
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
