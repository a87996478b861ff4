package command_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func (a *agent) wasAsked(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.asked {
		if strings.Contains(x, text) {
			return true
		}
	}
	return false
}

// TestDetachResolvesVolumeAndNode: the prefix of a volume is resolved whether or not the node is there, and
// a prefix of several nodes ends the command.
func TestDetachResolvesVolumeAndNode(t *testing.T) {
	answers := map[string]any{
		"GET /v1/volumes": []*api.VolumeStub{{ID: "vol-one", Namespace: "default"}}, "DELETE /v1/volume/csi/vol-one/detach": "",
		"GET /v1/nodes": []*api.NodeStub{{ID: "n1-a"}},
	}
	a := newAgent(t, answers)
	run(t, a, "", "volume", "detach", "vol", "n1").want(t, 0)
	if !a.wasAsked("DELETE /v1/volume/csi/vol-one/detach?force=false&namespace=default&node=n1-a") {
		t.Errorf("asked %v", a.asked)
	}
	answers["GET /v1/nodes"] = []*api.NodeStub{{ID: "n1-a"}, {ID: "n1-b"}}
	a = newAgent(t, answers)
	run(t, a, "", "volume", "detach", "vol", "n1").want(t, 1, "matched multiple nodes")
	if a.wasAsked("DELETE") {
		t.Errorf("a node was guessed: %v", a.asked)
	}
}

// TestWhatWasDoneIsSaid: detach and snapshot delete say what they did, and failures name the right thing.
func TestWhatWasDoneIsSaid(t *testing.T) {
	answers := map[string]any{
		"GET /v1/volumes": []*api.VolumeStub{{ID: "v1", Namespace: "default"}}, "DELETE /v1/volume/csi/v1/detach": "",
		"GET /v1/nodes": []*api.NodeStub{{ID: "n1"}}, "GET /v1/plugins": []*api.PluginStub{{ID: "p"}},
		"DELETE /v1/volumes/snapshot": "",
	}
	run(t, newAgent(t, answers), "", "volume", "detach", "v1", "n1").want(t, 0, `Volume "v1" detached from node "n1"`)
	run(t, newAgent(t, answers), "", "volume", "snapshot", "delete", "p", "s1").want(t, 0, `Deleted snapshot "s1"`)
	answers["DELETE /v1/volumes/snapshot"] = struct{ Warnings string }{"Look for it at the provider."}
	run(t, newAgent(t, answers), "", "volume", "snapshot", "delete", "-force", "p", "s1").want(t, 0, `Forgot snapshot "s1"`, "Look for it")
	run(t, newAgent(t, answers), "", "volume", "snapshot", "delete", "-force", "gone", "s1").want(t, 0, `Forgot snapshot "s1"`)
	answers["DELETE /v1/volumes/snapshot"] = &refusal{http.StatusConflict, "in use"}
	o := run(t, newAgent(t, answers), "", "volume", "snapshot", "delete", "p", "s1")
	o.want(t, 1, "deleting snapshot", "in use")
	if strings.Contains(o.err, "deleting volume") {
		t.Errorf("the failure is about a volume: %s", o.err)
	}
}

// TestExactPluginIDWinsOverItsPrefix: also when another plugin sorts first.
func TestExactPluginIDWinsOverItsPrefix(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/plugins":          []*api.PluginStub{{ID: "ebs-a"}, {ID: "ebs"}},
		"GET /v1/volumes/snapshot": &api.SnapshotListResponse{},
	})
	run(t, a, "", "volume", "snapshot", "list", "-plugin", "ebs").want(t, 0)
	if !a.wasAsked("plugin_id=ebs") || a.wasAsked("plugin_id=ebs-a") {
		t.Errorf("asked %v", a.asked)
	}
}

// TestDeleteActsInTheVolumesNamespace: with "*" the volume is looked for everywhere and deleted where it is.
func TestDeleteActsInTheVolumesNamespace(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/volumes": []*api.VolumeStub{{ID: "v1", Namespace: "team"}}, "DELETE /v1/volume/csi/v1/delete": "",
	})
	run(t, a, "", "volume", "delete", "-namespace", "*", "v1").want(t, 0)
	if !a.wasAsked("GET /v1/volumes?namespace=%2A") {
		t.Errorf("not looked for everywhere: %v", a.asked)
	}
	if last := a.asked[len(a.asked)-1]; !strings.HasPrefix(last, "DELETE") || !strings.Contains(last, "namespace=team") {
		t.Errorf("deleted with %s", last)
	}
}

// TestMalformedParametersAreErrors: as secrets are; nothing is sent.
func TestMalformedParametersAreErrors(t *testing.T) {
	for _, flag := range []string{"-parameter", "-secret"} {
		a := newAgent(t, nil)
		run(t, a, "", "volume", "snapshot", "create", flag, "x", "v1", "s").want(t, 1, flag+" is not key=value")
		if len(a.asked) > 0 {
			t.Errorf("%s: asked %v", flag, a.asked)
		}
	}
}
