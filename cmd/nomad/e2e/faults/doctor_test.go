package faults

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// reports waits until a command ends with the code and its output has all the words, and returns the output.
func (b *bed) reports(code int, words []string, args ...string) (out string) {
	b.t.Helper()
	b.Until(30*time.Second, strings.Join(args, " "), func() error {
		var got int
		if out, got = b.Run(args...); got != code {
			return fmt.Errorf("exit code %d, want %d: %s", got, code, out)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				return fmt.Errorf("no %q in:\n%s", w, out)
			}
		}
		return nil
	})
	return out
}

// TestDoctorOfStuckVolumes: a driver that fails, a node that is lost and a plugin that is stopped. The doctor names the cause,
// the holder, the time, the next step and a command; -fix repairs what it says it repairs, and the timeline has the story.
func TestDoctorOfStuckVolumes(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	text := "the array reboots"
	b.volume("stuck", nil)
	b.volume("held", nil)
	b.reports(0, []string{"healthy"}, "volume", "doctor")
	b.reports(0, []string{`Plugin "hp"`, "healthy"}, "plugin", "doctor", "hp")

	// The driver fails.
	b.faults(script.Fault{RPC: "NodeStageVolume", Code: unavailable, Text: text})
	b.Register(writer("w", "stuck"))
	alloc := b.any("w")
	out := b.reports(2, []string{"mount-failing", text, alloc.ID, `job "w"`, "Since", "Next", "repeats", "nomad alloc status"}, "volume", "doctor", "stuck")
	t.Log(out)
	b.reports(0, nil, "volume", "doctor", "held")
	b.faults()
	b.reports(0, nil, "volume", "doctor", "-fix", "-yes", "stuck")
	b.Running("w", 1)
	out = b.reports(0, []string{"claim", "attach", "done", alloc.ID[:8]}, "volume", "timeline", "stuck")
	t.Log(out)

	// The job is stopped, and the node cannot unmount the volume: an allocation that has ended holds it.
	b.faults(script.Fault{RPC: "NodeUnpublishVolume", Code: unavailable, Text: "the array is busy"})
	b.Stop("w", false)
	words := []string{"unmount-failing", "has ended", "the array is busy", alloc.ID, "Since", "Repair", "-fix asks the node to unmount"}
	t.Log(b.reports(2, words, "volume", "doctor", "stuck"))
	b.reports(2, []string{"the array is busy", "Left"}, "volume", "doctor", "-fix", "-yes", "stuck") // asserts nothing
	if b.waits("stuck") == "{Claims:[] Attachments:[]}" {
		t.Error("-fix released a claim whose volume is mounted")
	}
	b.faults()
	b.reports(0, []string{"healthy"}, "volume", "doctor", "-fix", "-yes", "stuck")
	b.Free("stuck")

	// The node of the holder is lost, and the lease does not end within the test.
	b.Register(writer("h", "held"))
	holder := b.Running("h", 1)
	b.beats("held", holder.ID)
	h := b.host(holder)
	b.allowed = []string{"detach-while-staged " + h.Name}
	h.Cut()
	b.status(h, "down")
	out = b.reports(2, []string{"node-lost", holder.ID, `job "h"`, h.Name, "does not send heartbeats", "Since", "Next", "Command"}, "volume", "doctor", "held")
	t.Log(out)
	if !regexp.MustCompile(`Command +[=:]? *nomad `).MatchString(out) {
		t.Errorf("no command of nomad is named:\n%s", out)
	}
	h.Heal()
	b.status(h, "ready")
	b.Stop("h", true)
	b.Free("held")

	// The plugin is stopped.
	b.Stop("hp", false)
	b.reports(2, []string{"plugin", "nomad plugin "}, "volume", "doctor", "stuck")
	out, code := b.Run("plugin", "doctor", "hp")
	t.Log(code, out)
	if code == 0 {
		t.Errorf("the doctor finds nothing wrong with a plugin that is stopped:\n%s", out)
	}
}
