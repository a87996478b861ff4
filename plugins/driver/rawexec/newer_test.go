package rawexec

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Between a look at the file of a lease and its removal the last one who had it may leave, and a new one come.
func TestFileOfANewerLeaseIsNotRemoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "l")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := lockAlone
	defer func() { lockAlone = before }()
	var newer *os.File
	lockAlone = func(f *os.File) (err error) {
		if newer == nil {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if newer, err = os.Create(name); err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(int(newer.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
				t.Fatal(err)
			}
		}
		return before(f)
	}
	removeLease(name)
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("the file of a lease was removed while a process has it: %v", err)
	}
	if removeLease(name) {
		t.Error("it is reported to have no holder")
	}
	if newer.Close(); !removeLease(name) {
		t.Error("it is reported to have a holder")
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file is left")
	}
}
