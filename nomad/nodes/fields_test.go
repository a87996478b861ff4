package nodes

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
)

// serversWrite are the fields of a node that a registration cannot change.
var serversWrite = []string{
	"Status", "StatusUpdatedAt", "StatusDescription", "SchedulingEligibility", "Drain", "DrainStrategy", "LastDrain",
	"Events", "CSILimits", "LastMissedHeartbeatIndex", "LastAllocUpdateIndex",
}

// unseen are those that no scheduler looks at.
var unseen = []string{
	"ID", "HTTPAddr", "TLSEnabled", "CgroupParent", "GCVolumesOnNodeGC", "SecretID", "BootID", "Silence", "RPCAddr", "StaleMounts",
	"CreateIndex", "ModifyIndex", "Process", "Number", "Former", "IdentitySigningKeyID",
	// The class says which drivers work, and is made of the rest.
	"Drivers", "ComputedClass",
	// What plugins tell people about their health.
	"CSIControllerPlugins[].UpdateTime", "CSINodePlugins[].UpdateTime",
	"CSIControllerPlugins[].HealthDescription", "CSINodePlugins[].HealthDescription",
}

func TestEveryFieldOfARegistrationIsKeptOrTaken(t *testing.T) {
	for _, f := range apitest.Fields(&api.Node{}) {
		old, n := apitest.Full(&api.Node{}), apitest.Full(&api.Node{})
		f.Set(n)
		keep(n, old)
		kept := f.Get(n) == f.Get(old)
		if want := under(f.Path, serversWrite); kept != want {
			t.Errorf("%s is kept: %v, want %v", f.Path, kept, want)
		}
	}
}

func TestEveryFieldThatSchedulersSeeIsNews(t *testing.T) {
	for _, f := range apitest.Fields(&api.Node{}, append(unseen, serversWrite...)...) {
		a, b := apitest.Full(&api.Node{}), apitest.Full(&api.Node{})
		f.Set(b)
		a.ComputedClass, b.ComputedClass = computedClass(a), computedClass(b)
		if !differs(a, b) {
			t.Errorf("%s is no news", f.Path)
		}
	}
}

func TestWhoSaysItIsNoNews(t *testing.T) {
	a, b := apitest.Full(&api.Node{}), apitest.Full(&api.Node{})
	b.Process, b.Number, b.Former = "another", a.Number+1, []string{a.Process}
	if differs(a, b) {
		t.Error("each registration has all jobs evaluated")
	}
}

func TestEveryFieldOfARowIsFilled(t *testing.T) {
	n := apitest.Full(&api.Node{})
	n.HTTPAddr, n.Attributes["nomad.version"] = "text 1:4646", "text 1"
	row := stub(n, &api.NodeListRequest{Resources: true})
	for _, f := range apitest.Fields(&api.NodeStub{}, "Attributes") { // of them, lists show one
		if v := f.Get(row); v != f.Get(apitest.Full(&api.NodeStub{})) {
			t.Errorf("%s is %v", f.Path, v)
		}
	}
}

func under(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") {
			return true
		}
	}
	return false
}
