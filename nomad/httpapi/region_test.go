package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// withRegions is a server that knows the ways to other regions, of an agent in the region "east".
func withRegions(c *cluster) http.Handler {
	return httpapi.New(httpapi.Config{
		Servers: c, OtherRegions: true, Region: "east", LocalNodeID: func() string { return "n1" },
		Node: func(string) (wire.Caller, error) { return c, nil },
	})
}

func TestNodesOfOtherRegionsAreAskedThroughTheServers(t *testing.T) {
	t.Parallel()
	c := newCluster()
	send(withRegions(c), "GET", "/v1/client/stats?region=west&node_id=n2", "", "X-Nomad-Token", "secret")
	if r := last(t, c, wire.NodeCall); r.Region != "west" || r.NodeID != "n2" || r.Method != wire.ClientNodeStats.Name || r.AuthToken != "secret" {
		t.Errorf("asked %+v", r)
	}
	expect(t, send(withRegions(c), "GET", "/v1/client/stats?region=west", ""), 400, "node_id not provided")
	send(withRegions(c), "GET", "/v1/client/stats?region=east", "")
	if r := last(t, c, wire.ClientNodeStats); r.NodeID != "n1" {
		t.Errorf("asked %+v", r)
	}
}

func TestRegionOfAJob(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ target, body, want string }{
		{"/v1/jobs", `{"Job":{"ID":"j"}}`, "east"},
		{"/v1/jobs", `{"Job":{"ID":"j","Region":"global"}}`, "east"},
		{"/v1/jobs?region=global", `{"Job":{"ID":"j"}}`, "global"},
		{"/v1/jobs", `{"Job":{"ID":"j","Region":"west"}}`, "west"},
		{"/v1/jobs?region=north", `{"Job":{"ID":"j","Region":"west"}}`, "north"},
	} {
		c := newCluster()
		on(c, wire.JobRegister, func(*api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
			return &api.JobRegisterResponse{EvalID: "e1"}, nil
		})
		expect(t, send(withRegions(c), "POST", x.target, x.body), 200, "e1")
		if r := last(t, c, wire.JobRegister); r.Region != x.want || r.Job.Region != x.want {
			t.Errorf("%s %s: region %q and %q, want %q", x.target, x.body, r.Region, r.Job.Region, x.want)
		}
	}
}
