package supervise

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A supervising process may begin where one that kept a lease was killed, while what that left is removed.
func TestCleaningSparesTheSocketOfOneThatBegins(t *testing.T) {
	state := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(state+".sock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var begins sync.WaitGroup
	begun := make(chan struct{})
	defer func(u func(string) error) { unlink = u }(unlink)
	unlink = func(path string) error {
		if filepath.Ext(path) == ".sock" {
			begins.Go(func() {
				f, err := lock(state, newMark())
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				if err := os.WriteFile(state+".sock", nil, 0o600); err != nil {
					t.Error(err)
				}
				close(begun)
			})
			select { // it has the time to begin, unless it waits
			case <-begun:
			case <-time.After(200 * time.Millisecond):
			}
		}
		return os.Remove(path)
	}
	p := &Process{ident: Ident{State: state}}
	if err := p.Clean(); err != nil {
		t.Error(err)
	}
	begins.Wait()
	for _, ending := range []string{".sock", ".lock"} {
		if _, err := os.Lstat(state + ending); err != nil {
			t.Errorf("of the one that begins: %v", err)
		}
	}
}

// What a task has that is not forgotten stays, and so does what begins.
func TestCleaningSparesWhatIsNotForgotten(t *testing.T) {
	state := filepath.Join(t.TempDir(), "x")
	for _, ending := range []string{".sock", ".lock"} {
		if err := os.WriteFile(state+ending, []byte(ending), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &Process{ident: Ident{State: state}}
	if err := p.Clean(); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(state + ".lock"); err != nil || string(raw) != ".lock" {
		t.Errorf("the lock has %q: %v", raw, err)
	}
	if err := os.Remove(state + ".lock"); err != nil {
		t.Fatal(err)
	}
	if err := p.Clean(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(state))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
