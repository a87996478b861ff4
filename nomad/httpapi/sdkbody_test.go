package httpapi_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestLifetimeOfAPoolsIdentitiesIsANumberOrAText(t *testing.T) {
	for _, x := range []struct {
		ttl  string
		code int
		want time.Duration
	}{
		{`""`, 200, 0}, {`"24h"`, 200, 24 * time.Hour}, {`1000`, 200, 1000}, {`null`, 200, 0}, {`"soon"`, 400, 0}, {`{}`, 400, 0},
	} {
		c := newCluster()
		expect(t, send(handler(c), "PUT", "/v1/node/pools", `{"Name":"gpu","NodeIdentityTTL":`+x.ttl+`}`), x.code, "")
		if x.code != 200 {
			continue
		}
		if p := last(t, c, wire.NodePoolUpsert).Spec; p.Name != "gpu" || p.NodeIdentityTTL != x.want {
			t.Errorf("%s: %+v", x.ttl, p)
		}
	}
}

func TestSearchGoesOnWithoutObjectsThatServersDoNotHave(t *testing.T) {
	c := newCluster()
	on(c, wire.DeploymentList, func(*api.QueryOptions) (*api.DeploymentListResponse, error) {
		return nil, fault.New(fault.Unimplemented, "unknown method Deployment.List")
	})
	on(c, wire.VolumeList, func(*api.VolumeListRequest) (*api.VolumeListResponse, error) {
		return &api.VolumeListResponse{Volumes: []*api.VolumeStub{{ID: "v1"}}}, nil
	})
	expect(t, send(handler(c), "PUT", "/v1/search", `{"Prefix":"v","Context":"all"}`), 200, `"volumes":["v1"]`)
}
