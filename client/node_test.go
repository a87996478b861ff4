package client

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// restoring are servers that tell of another restore with each registration.
type restoring struct {
	Servers
	calls int
}

func (r *restoring) Invoke(_ context.Context, _ string, _, resp any) error {
	r.calls++
	resp.(*api.NodeUpdateResponse).Rollback = int64(r.calls)
	return nil
}

// Servers that never take a registration for the newest get it again at the pace of heartbeats.
func TestRegistrationIsNotRepeatedWithoutEnd(t *testing.T) {
	n := nodeOf(t, t.TempDir(), electorate{})
	n.volumes = leased(t, mountstest.New("n"), 5*time.Minute)
	n.node = newRecord(&api.Node{ID: "n"})
	servers := &restoring{}
	n.conf.Servers = servers
	returns(t, "a registration", func() {
		if next, err := n.register(t.Context()); err == nil || next < beatRetry {
			t.Errorf("next in %s: %v", next, err)
		}
	})
	if servers.calls > 10 {
		t.Errorf("registered %d times at once", servers.calls)
	}
}
