package pluginview_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func first(t *testing.T, tx *state.Txn, object string) string {
	t.Helper()
	ids, err := pluginview.Controllers(tx, "p", object, pluginview.Attach)
	if err != nil || len(ids) == 0 {
		t.Fatalf("%v, %v", ids, err)
	}
	return ids[0]
}

// A controller that goes leaves its objects to the others, and moves none of theirs.
func TestObjectsStayWithTheirController(t *testing.T) {
	r := volumestest.New(t)
	for i := range 4 {
		r.Node(fmt.Sprintf("n%d", i))
	}
	before := map[string]string{}
	for i := range 100 {
		object := fmt.Sprintf("vol-%03d", i)
		before[object] = first(t, r.State.Read(), object)
	}
	r.Change("n2", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	moved := 0
	for object, node := range before {
		switch now := first(t, r.State.Read(), object); {
		case now == "n2", node != "n2" && now != node:
			t.Errorf("%s went from %s to %s", object, node, now)
		case now != node:
			moved++
		}
	}
	if moved < 10 || moved > 50 {
		t.Errorf("%d of 100 objects were one of four controllers'", moved)
	}
}

func TestWhyNoControllerIsAsked(t *testing.T) {
	r := volumestest.New(t)
	if _, err := pluginview.Controllers(r.State.Read(), "p", "", pluginview.Attach); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no node reports one") {
		t.Errorf("without nodes: %v", err)
	}
	r.Node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.SupportsAttachDetach = false })
	if ids, err := pluginview.Controllers(r.State.Read(), "p", "", pluginview.Attach); err != nil || len(ids) > 0 {
		t.Errorf("without the capability: %v, %v", ids, err)
	}
	r.Change("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy, n.CSIControllerPlugins["p"].HealthDescription = false, "probe timed out"
	})
	if _, err := pluginview.Controllers(r.State.Read(), "p", "", pluginview.Attach); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "unhealthy on node n1: probe timed out") {
		t.Errorf("unhealthy: %v", err)
	}
}
