package dirs_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// TestRenamedSecretsLeaveNoMount: a task that swaps its secrets directory with another name leaves no mount under that name.
func TestRenamedSecretsLeaveNoMount(t *testing.T) {
	t.Parallel()
	a := inMemory(t)
	dir := a.Task("web").Secrets()
	side := filepath.Join(filepath.Dir(dir), "side")
	if err := errors.Join(a.UnmountSecrets(), os.Mkdir(side, 0o700)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, side, unix.RENAME_EXCHANGE)
			}
		}
	})
	defer swaps.Wait()
	defer close(stop)
	mounted := 0
	for range 300 {
		err := a.MountSecrets("web", 0)
		if err != nil && !errors.Is(err, fault.Conflict) && !errors.Is(err, unix.ENOENT) {
			t.Fatal(err)
		}
		if err == nil {
			mounted++
		}
		if err := a.UnmountSecrets(); err != nil {
			t.Fatal(err)
		}
		if n := mountsBelow(t, a.Dir()); n > 0 {
			t.Fatalf("%d mounts are left", n)
		}
	}
	if mounted == 0 {
		t.Error("it was never mounted")
	}
}
