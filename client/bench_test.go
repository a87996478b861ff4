package client_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// TestManyTasksStartTogether starts 200 raw_exec tasks at once; FIGURES=1 runs it.
func TestManyTasksStartTogether(t *testing.T) {
	if os.Getenv("FIGURES") == "" {
		t.Skip("FIGURES is not set")
	}
	const count = 200
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.Dev = true, true
	b.conf.GC.MaxAllocs = 0
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	j := job("service", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"1000"}})
	if os.Getenv("FIGURES") == "mock" {
		j = job("service", "mock_driver", map[string]any{"run_for": "1h"})
	}
	began := time.Now()
	b.edit(func() {
		for i := range count {
			a := alloc(fmt.Sprintf("a%03d", i), j)
			a.AllocModifyIndex = 1
			b.allocs[a.ID] = &a
		}
	})
	all := func(status string) func() bool {
		return func() bool {
			for id := range b.allocs {
				if b.status(id) != status {
					return false
				}
			}
			return true
		}
	}
	b.until(t, "all run", all(api.AllocClientStatusRunning))
	took := time.Since(began)
	t.Logf("%d tasks running after %s: %.0f/s, %d reports", count, took, count/took.Seconds(), b.reports)
	began = time.Now()
	b.edit(func() {
		for id, a := range b.allocs {
			next := stopped(*a)
			next.AllocModifyIndex = 2
			b.allocs[id] = &next
		}
	})
	b.until(t, "all stopped", all(api.AllocClientStatusComplete))
	t.Logf("all stopped after %s", time.Since(began))
}
