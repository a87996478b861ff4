package client

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

type heard chan string

func (h heard) Invoke(_ context.Context, method string, _, _ any) error { h <- method; return nil }

func TestVolumesAreNotClaimedBeforeTheServersKnowTheBoot(t *testing.T) {
	registered, got := make(chan struct{}), make(heard, 2)
	servers := afterRegistration{got, registered}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := wire.VolumeClaim.Call(ctx, servers, &api.VolumeClaimRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a claim before the registration: %v", err)
	}
	if _, err := wire.VolumeUnpublish.Call(t.Context(), servers, &api.VolumeUnpublishRequest{}); err != nil {
		t.Error(err)
	}
	close(registered)
	if _, err := wire.VolumeClaim.Call(t.Context(), servers, &api.VolumeClaimRequest{}); err != nil {
		t.Error(err)
	}
	if a, b := <-got, <-got; a != wire.VolumeUnpublish.Name || b != wire.VolumeClaim.Name {
		t.Errorf("the servers got %s and %s", a, b)
	}
}
