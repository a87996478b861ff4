package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestPoststopTaskHasItsVolumeToItsEnd: it writes what is left to write, whether its allocation is moved by a drain, or its
// agent is killed and started anew while it runs.
func TestPoststopTaskHasItsVolumeToItsEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	j := writer("w", "v1")
	post := &api.Task{
		Name: "after", Driver: "raw_exec",
		Config:       map[string]any{"command": "/bin/sh", "args": []string{"-c", `cd data || exit 9; for i in 1 2 3 4 5 6; do echo beat $NOMAD_ALLOC_ID >> journal; echo $NOMAD_ALLOC_ID >> after; sleep 0.5; done; echo end $NOMAD_ALLOC_ID >> after`}},
		Resources:    &api.Resources{CPU: ptr(1), MemoryMB: ptr(10)},
		Lifecycle:    &api.TaskLifecycle{Hook: "poststop"},
		VolumeMounts: []*api.VolumeMount{{Volume: ptr("data"), Destination: ptr("data")}},
	}
	j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, post)
	b.Register(j)
	after := func() string {
		body, _ := os.ReadFile(b.data("v1", "after"))
		return string(body)
	}
	ended := func(id string) {
		b.Until(60*time.Second, "poststop of "+id, func() error {
			if !strings.Contains(after(), "end "+id) {
				return fmt.Errorf("%q %s %s", after(), b.tell("w"), b.waits("v1"))
			}
			return nil
		})
	}
	a := b.Running("w", 1)
	b.beats("v1", a.ID)
	if out, code := b.Run("node", "drain", "-enable", "-yes", "-detach", a.NodeID); code != 0 {
		t.Fatal(out)
	}
	next := b.moved("w", a.ID)
	b.beats("v1", next.ID)
	ended(a.ID)
	if strings.Count(after(), a.ID) != 7 {
		t.Errorf("poststop was cut: %q", after())
	}
	if out, code := b.Run("node", "drain", "-disable", "-yes", a.NodeID); code != 0 {
		t.Fatal(out)
	}
	b.Stop("w", false)
	b.Until(30*time.Second, "poststop to begin", func() error {
		if !strings.Contains(after(), next.ID) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	h := b.host(next)
	h.Kill9()
	h.Restart()
	ended(next.ID)
	if strings.Count(after(), next.ID) != 7 {
		t.Errorf("poststop was run again: %q", after())
	}
	b.clean()
}
