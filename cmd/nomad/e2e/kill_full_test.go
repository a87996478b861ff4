package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestNodeWithAFullDisk: the node says why it takes nothing new; what ends is reported and not run again, though the
// agent is killed meanwhile; what runs can be stopped; and all is well when there is room again.
func TestNodeWithAFullDisk(t *testing.T) {
	t.Parallel()
	lab := kit.NewLab(t)
	server, node := lab.Host("s1"), lab.Host("n1")
	server.Serve([]*kit.Host{server}, kit.Quick)
	data := filepath.Join(node.Dir, "data")
	if err := os.Mkdir(data, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=256m"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	node.Work([]*kit.Host{server}, "")
	server.Ready(1)

	const many = 8
	waits := func(id string) *short {
		return shortJob(server.Agent, id, lab.Dir, many, fmt.Sprintf("while ! [ -e %s/end-%s ]; do sleep 0.1; done", lab.Dir, id))
	}
	end := func(s *short) {
		t.Helper()
		if err := os.WriteFile(lab.Dir+"/end-"+s.id, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen, away := waits("seen"), waits("away")
	server.Register(kit.ShellJob("stays", `trap "" INT TERM; while :; do sleep 1000; done`))
	for _, job := range []string{"seen", "away"} {
		server.Running(job, many)
	}
	server.Running("stays", 1)

	full(t, filepath.Join(data, "fill"))
	server.Until(30*time.Second, "the node to say why", func() error {
		n, _, err := server.API.Nodes().Info(node.NodeID(server), nil)
		if err != nil {
			return err
		}
		if d := n.Drivers["raw_exec"]; d == nil || d.Healthy || !strings.Contains(d.HealthDescription, "no space left on device") {
			return fmt.Errorf("driver %+v", d)
		}
		return nil
	})
	server.Register(kit.ShellJob("comes", quiet))
	var sum tally
	end(seen)
	sum.add(seen.once(t, server.Agent, 30*time.Second))
	node.Kill9()
	end(away)
	server.Until(10*time.Second, "the tasks to end", func() error {
		body, err := os.ReadFile(away.file("ends"))
		if n := len(strings.Fields(string(body))); err != nil || n != many {
			return fmt.Errorf("%d have, %v", n, err)
		}
		return nil
	})
	node.Restart()
	sum.add(away.once(t, server.Agent, 30*time.Second))
	server.Stop("stays", false)
	took := server.Until(15*time.Second, "the job to end", func() error {
		if len(server.Allocs("stays", "complete")) != 1 || len(node.Shells()) > 0 {
			return fmt.Errorf("%d are complete, processes %v", len(server.Allocs("stays", "complete")), node.Shells())
		}
		return nil
	})
	if len(server.Allocs("comes", "running")) > 0 {
		t.Error("the node takes new work")
	}
	if err := os.Remove(filepath.Join(data, "fill")); err != nil {
		t.Fatal(err)
	}
	server.Running("comes", 1)
	kit.Measured(t, fmt.Sprintf("full disk: %s; a job ended in %s, with 5 s to end by itself", sum, took.Round(10*time.Millisecond)))
}

// full writes until no space is left.
func full(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	for _, size := range []int{1 << 20, 4096, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
