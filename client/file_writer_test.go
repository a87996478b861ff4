package client

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// hungFile makes a file whose writer waits, as on a disk that hangs, until the function is called.
func hungFile(t *testing.T, path string) (goOn func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { _ = f.Close() })
		}
	}
}

// silentServers takes over what it is told.
type silentServers struct{ Servers }

func (silentServers) SetServers([]string) {}
func (silentServers) Remember([]string)   {}

func returns(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not return", what)
	}
}

// A disk that hangs keeps the note of the heartbeats, and nothing else: heartbeats go on, and leases are renewed and end.
func TestHungDiskHoldsUpNoLease(t *testing.T) {
	dir := t.TempDir()
	n := nodeOf(t, dir, electorate{})
	n.volumes = leased(t, mountstest.New("n"), 5*time.Minute)
	n.lease.from.Store(7)
	goOn := hungFile(t, filepath.Join(dir, leaseFile+".new"))
	for range 3 {
		returns(t, "the renewal", func() { n.renewLeases(n.lease.from.Load() + 1) })
	}
	returns(t, "the lease of a task that starts", func() { n.storeLease() })
	returns(t, "the end of leases", n.removeLeaseFile)
	returns(t, "a promise", func() {
		if err := n.promise(); !errors.Is(err, fault.Unavailable) {
			t.Errorf("a promise that is not on record: %v", err)
		}
	})
	goOn()
	if left := n.files.end(); len(left) > 0 {
		t.Errorf("%v hang still", left)
	}
	next := nodeOf(t, dir, electorate{})
	if err := n.promise(); err != nil {
		t.Errorf("when the disk answers again: %v", err)
	}
	if next.readLeaseFile(); next.lease.from.Load() != 10 {
		t.Errorf("the note is of %d", next.lease.from.Load())
	}
}

// What servers and voters are is kept beside the heartbeats, too.
func TestHungDiskHoldsUpNoHeartbeat(t *testing.T) {
	dir := t.TempDir()
	n := nodeOf(t, dir, electorate{Servers: silentServers{}})
	hang := make(chan struct{})
	for _, w := range []*writer{&n.files.servers, &n.files.voters} {
		w.begin(func() error { <-hang; return nil })
	}
	for range 3 {
		returns(t, "an answer", func() {
			n.votersReceived(voters(1, "a"))
			n.serversReceived([]string{"b", "a"})
		})
	}
	close(hang)
	if left := n.files.end(); len(left) > 0 {
		t.Errorf("%v hang still", left)
	}
	next := nodeOf(t, dir, electorate{Servers: silentServers{}})
	next.readServersFile()
	if v := next.voters.Load(); v == nil || v.Servers["a"] == "" {
		t.Errorf("the voters are %+v", v)
	}
	if got := next.servers.Load(); got == nil || !slices.Equal(*got, []string{"a", "b"}) {
		t.Errorf("the servers are %v", got)
	}
}
