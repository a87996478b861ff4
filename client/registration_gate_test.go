package client

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

type heard chan string

func (h heard) Invoke(_ context.Context, method string, _, _ any) error { h <- method; return nil }

func TestVolumesAreNotClaimedBeforeTheServersKnowTheBoot(t *testing.T) {
	registered, got := make(chan struct{}), make(heard, 2)
	servers := afterRegistration{got, registered, func() string { return "" }}
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

// denying refuses the credential that a node has just replaced.
type denying struct{ replace func() }

func (d denying) Invoke(context.Context, string, any, any) error {
	d.replace()
	return fault.New(fault.Denied, "the secret alone is not accepted")
}

func TestCallsWithAReplacedCredentialAreRepeated(t *testing.T) {
	registered, credential := make(chan struct{}), "secret"
	close(registered)
	servers := afterRegistration{denying{func() { credential = "identity" }}, registered, func() string { return credential }}
	for _, c := range []struct {
		sent string
		want error
	}{{"secret", fault.Unavailable}, {"identity", fault.Denied}} {
		if _, err := wire.VolumeClaim.Call(t.Context(), servers, &api.VolumeClaimRequest{NodeSecret: c.sent}); fault.Of(err) != c.want {
			t.Errorf("%s: %v", c.sent, err)
		}
	}
}
