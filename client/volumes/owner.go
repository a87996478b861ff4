package volumes

import (
	"context"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/owner"
)

// own gives what was just published to the volume's owner. Drivers that take a group have done that part.
func own(ctx context.Context, p *plugin, r *row) error {
	if r.Owner == nil || r.device() || r.ReadOnly {
		return nil
	}
	return owner.Apply(ctx, r.Target.Host, r.Owner, p.Node != nil && p.Node.SupportsVolumeMountGroup)
}

// mountGroup is the group for drivers that give mounts to groups themselves.
func mountGroup(r *row) string {
	if o := r.Owner; o != nil && o.Policy != api.OwnerNever && !r.device() {
		return strconv.Itoa(o.GID)
	}
	return ""
}
