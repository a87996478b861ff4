package nodes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestForgottenHostVolumeIsReported: a node that comes back has a volume that was deleted with -force meanwhile.
func TestForgottenHostVolumeIsReported(t *testing.T) {
	t.Parallel()
	s := state.New()
	r := fsm.NewLocal(s, registry())
	register := func(status string) *api.Node {
		t.Helper()
		n := &api.Node{ID: "n1", SecretID: "s", Status: api.NodeStatusReady, HostVolumes: map[string]*api.HostVolumeInfo{
			"data": {ID: "v1", Namespace: "default", Path: "/srv/v1"}, "static": {Path: "/srv/static"},
		}}
		if _, err := r.Propose(t.Context(), &nodes.RegisterNode{Node: n}); err != nil {
			t.Fatal(err)
		}
		tx := s.Write(s.Read().Index()+1, time.Unix(1000, 0))
		next := *tx.Node("n1")
		next.Status = status
		tx.PutNode(&next)
		tx.Commit()
		return &next
	}
	count := func(n *api.Node) (found int) {
		for _, e := range n.Events {
			if strings.Contains(e.Message, `host volume "data" (v1)`) && strings.Contains(e.Message, "/srv/v1 is left") {
				found++
			}
		}
		return found
	}
	for i, c := range []struct {
		status string
		want   int
	}{{api.NodeStatusReady, 1}, {api.NodeStatusDown, 1}, {api.NodeStatusReady, 2}} { // once each time that it comes back
		if n := register(c.status); count(n) != c.want || n.HostVolumes["data"] != nil || n.HostVolumes["static"] == nil {
			t.Errorf("registration %d: %d events, want %d: %+v", i+1, count(n), c.want, n.HostVolumes)
		}
	}
}
