package client

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// afterRegistration delays claims on volumes until the servers know this process. They take another boot of the node for the
// proof that nothing is mounted on it any more: a volume that was claimed and mounted before they receive the boot would be
// given away under its mount. It also delays the signing of identities: that of the node may have expired before. A
// call with a credential that the node has replaced meanwhile is not refused for good.
type afterRegistration struct {
	wire.Caller
	registered <-chan struct{}
	credential func() string
}

// Invoke implements [wire.Caller].
func (a afterRegistration) Invoke(ctx context.Context, method string, req, resp any) error {
	if method == wire.VolumeClaim.Name || method == wire.AllocSignIdentities.Name || method == wire.AllocDiskData.Name {
		select {
		case <-a.registered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := a.Caller.Invoke(ctx, method, req, resp)
	if r, ok := req.(api.ByNode); ok && errors.Is(err, fault.Denied) {
		if _, sent := r.NodeCredentials(); sent != a.credential() {
			return fault.New(fault.Unavailable, "the credential of the node was replaced during the call: %v", err)
		}
	}
	return err
}
