package volumes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// TestPluginGoesAfterThoseWhoLeave stops a plugin together with one of its two users, as on a node that comes
// back after it was lost.
func TestPluginGoesAfterThoseWhoLeave(t *testing.T) {
	u := newUsers()
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.Tasks = u })
	r.driver.Storage().Add("w")
	p := r.plugIn("plug")
	stays := workload("stays")
	stays.Job.TaskGroups[0].Volumes["a"].Source = "w"
	r.up(stays)
	r.up(workload("leaves"))
	p.goes(t)

	u.leave("leaves")
	p.keeps(t, func() { r.down("leaves") })

	u.mu.Lock()
	u.lost["plug"] = true
	u.mu.Unlock()
	p.keeps(t, func() { r.down("stays") })

	r.up(workload("third"))
	r.unplug(p)
	p.goes(t) // it cannot unmount anything
	r.plugIn("plug")
}

func (p *plug) goes(t *testing.T) {
	t.Helper()
	p.task.Quiesce(t.Context(), func(kind, text string) { t.Errorf("told of a wait: %s: %s", kind, text) })
}

// keeps asserts that the plugin is kept until what is done then, and tells so once.
func (p *plug) keeps(t *testing.T, until func()) {
	t.Helper()
	said, gone := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(gone)
		p.task.Quiesce(t.Context(), func(kind, text string) { said <- kind + ": " + text })
	}()
	select {
	case text := <-said:
		if !strings.HasPrefix(text, "Waiting: 1 volumes") {
			t.Errorf("told %q", text)
		}
	case <-gone:
		t.Fatal("the plugin goes while a volume is mounted for an allocation that leaves")
	}
	until()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Fatal("the plugin is kept")
	}
	if len(said) != 0 {
		t.Errorf("told twice: %q", <-said)
	}
}
