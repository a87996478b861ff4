package reconciler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A hook that ends after its node came back has shut off nothing: the node has users again. When it is lost once more
// the hook runs once more.
func TestHookThatEndsTooLateProvesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "fence")
	script := "#!/bin/sh\ncd " + dir + "\necho run >>runs\n[ $(wc -l <runs) -gt 1 ] && exit 1\nread x <pipe\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(l *reconciler.Limits) { l.FenceHook = program })
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	until := func(runs int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			b, _ := os.ReadFile(dir + "/runs")
			if strings.Count(string(b), "run") >= runs || r.ClaimState("v", "a1") != api.ClaimReleasing {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %d runs", strings.Count(string(b), "run"))
			}
		}
	}
	r.lose(0)
	until(1)
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if err := os.WriteFile(dir+"/pipe", []byte("off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Down("n1", 0)
	until(2)
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
		t.Errorf("the claim is %q by a hook that ended while its node was there", s)
	}
}

// The row of a node that was lost in an older state says nothing of the node as it is.
func TestNodeOfAnOlderStateIsNotShutOffBeforeItHasTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "fence")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho run >>"+dir+"/runs\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(l *reconciler.Limits) { l.FenceHook = program })
	r.Node("n1")
	r.Register(volumestest.Spec("v"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	r.Down("n1", time.Hour)
	r.Edit(func(tx *state.Txn) {
		c := *tx.Claim("default", "v", "a1", "")
		c.State = api.ClaimReleasing
		tx.PutClaim(&c)
	})
	r.restore(r.saved(), "n1")
	r.Node("n2")
	for i := range 20 { // while others are served
		r.shares(fmt.Sprint("s", i), "n2")
	}
	if _, err := os.Stat(dir + "/runs"); err == nil {
		t.Error("it is shut off")
	}
}
