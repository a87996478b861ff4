package reconciler_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
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
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
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
