package state_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A plugin may run on all nodes, and its controllers on a few: they are found without the others.
func TestControllersOfAPluginAreFoundApart(t *testing.T) {
	t.Parallel()
	s := state.New()
	has := map[string]*api.CSIInfo{"p": {PluginID: "p"}}
	put := func(list ...*api.Node) {
		tx := s.Write(s.Read().Index()+1, time.Unix(1, 0))
		for _, n := range list {
			tx.PutNode(n)
		}
		tx.Commit()
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for n := range s.Read().NodesByController("p") {
			got = append(got, n.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	put(&api.Node{ID: "node", CSINodePlugins: has}, &api.Node{ID: "a", CSIControllerPlugins: has},
		&api.Node{ID: "both", CSINodePlugins: has, CSIControllerPlugins: has}, &api.Node{ID: "q", CSIControllerPlugins: map[string]*api.CSIInfo{"q": {}}})
	check("a", "both")
	put(&api.Node{ID: "both", CSINodePlugins: has})
	check("a")
}
