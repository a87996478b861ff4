package nodes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

// What drivers have taught the servers of a node's capacity is not lost when the node registers anew.
func TestLearnedLimitOutlivesRegistration(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("n1"))
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	n := *tx.Node("n1")
	n.CSILimits = map[string]*api.CSILimit{"p": {Volumes: 3, Until: 9}}
	tx.PutNode(&n)
	tx.Commit()
	again := node("n1")
	again.Attributes["gpu"] = "yes"
	r.register(again)
	if l := r.state.Read().Node("n1").CSILimits["p"]; l == nil || l.Volumes != 3 || l.Until != 9 {
		t.Errorf("limit %+v", l)
	}
}
