package client

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// hearing are servers that keep what is told of volumes.
type hearing struct {
	electorate
	told chan *api.VolumeUnpublishRequest
}

func (h hearing) Invoke(ctx context.Context, method string, req, resp any) error {
	if r, ok := req.(*api.VolumeUnpublishRequest); ok {
		h.told <- r
		return nil
	}
	return h.electorate.Invoke(ctx, method, req, resp)
}

// Why a task cannot be ended is why its volume is not given back: the servers are told, for those who wait for it.
func TestServersAreToldWhyATaskCannotBeEnded(t *testing.T) {
	h := hearing{told: make(chan *api.VolumeUnpublishRequest, 10)}
	c := &Client{log: hclog.NewNullLogger(), node: &record{}, volumes: leasedFrom(t, h, mountstest.New("n"), time.Hour)}
	conf := c.tasksConfig(&api.Allocation{ID: "a"}, dirs.Alloc{}, nil, func() {})
	if conf.Stuck == nil {
		t.Fatal("nobody is told")
	}
	conf.Stuck("task t: process 7 (dd) is stuck")
	select {
	case r := <-h.told:
		if r.AllocID != "a" || r.VolumeID != "v" || !strings.Contains(r.Error, "process 7 (dd) is stuck") {
			t.Errorf("the servers are told %+v", r)
		}
	case <-time.After(30 * time.Second):
		t.Error("the servers are not told")
	}
}
