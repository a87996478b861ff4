package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestFault13DiskOfANodeFull(t *testing.T) {
	data := func(h *kit.Host) string { return filepath.Join(h.Dir, "data") }
	b := newBed(t, 2, true, func(h *kit.Host) {
		if err := os.Mkdir(data(h), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", data(h), "tmpfs", 0, "size=64m"); err != nil {
			t.Fatalf("mount: %v", err)
		}
	})
	h := b.nodes[0]
	for _, id := range []string{"stays", "stops", "comes"} {
		b.volume(id, nil)
	}
	b.Register(on(writer("stays", "stays"), h))
	b.Register(on(writer("stops", "stops"), h))
	stays := b.Running("stays", 1)
	b.Running("stops", 1)
	b.beats("stays", stays.ID)

	fill := filepath.Join(data(h), "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	_ = f.Close()
	b.Register(on(writer("comes", "comes"), h))
	b.Stop("stops", false)
	began := time.Now()
	for time.Since(began) < 6*time.Second {
		if b.Claimed("stops") == 0 && strings.Contains(strings.Join(h.VolumeMounts(), " "), b.volumes["stops"]) {
			t.Fatal("the claim is free and the volume is mounted")
		}
		<-time.After(50 * time.Millisecond)
	}
	freed := b.Claimed("stops") == 0
	b.beats("stays", stays.ID)
	if now := b.Running("stays", 1); now.ID != stays.ID {
		t.Errorf("the running task was replaced: %s", b.tell("stays"))
	}
	told := ""
	n, _, err := b.API.Nodes().Info(h.NodeID(b.Host), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range n.Events {
		if strings.Contains(e.Message, "full") || strings.Contains(e.Message, "space") || strings.Contains(e.Message, "disk") {
			told = e.Message
		}
	}
	if told == "" {
		t.Errorf("no event of the node tells of the full disk: %d events; the new job: %s", len(n.Events), b.tell("comes"))
	}

	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	b.Free("stops")
	b.runs("comes", "comes", 40*time.Second)
	back := time.Since(began)
	b.beats("comes", b.Running("comes", 1).ID)
	for _, id := range []string{"stays", "comes"} {
		b.Stop(id, false)
	}
	b.clean()
	b.row(13, "disk of a node full for 6 s", fmt.Sprintf("running task goes on; stop freed its volume meanwhile: %v; event %q; new job runs %s after", freed, told, short(back)),
		"running tasks go on, node event, no lost record, recovers")
}
