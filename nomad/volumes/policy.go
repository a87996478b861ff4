package volumes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

var (
	ownerPolicies = []string{"", api.OwnerRootMismatch, api.OwnerAlways, api.OwnerNever}
	mountDead     = []string{"", api.MountDeadIgnore, api.MountDeadRepublish, api.MountDeadRestart, api.MountDeadSignal}
)

// ownerIDMax is the largest user or group id; the one above it means "leave it" to the kernel.
const ownerIDMax = 1<<32 - 2

// ownerErrors checks what the node shall do with the mount.
func ownerErrors(v *api.VolumeSpec) (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(mountDead, v.OnMountDead) {
		wrong("on_mount_dead %q is unknown: use one of %s", v.OnMountDead, strings.Join(mountDead[1:], ", "))
	}
	o := v.Owner
	if o == nil {
		return errs
	}
	if o.UID < 0 || o.UID > ownerIDMax {
		wrong("owner.uid %d is no user id: use 0 to %d", o.UID, ownerIDMax)
	}
	if o.GID < 0 || o.GID > ownerIDMax {
		wrong("owner.gid %d is no group id: use 0 to %d", o.GID, ownerIDMax)
	}
	if m, err := strconv.ParseUint(o.Mode, 8, 32); o.Mode != "" && (err != nil || m > 0o7777) {
		wrong("owner.mode %q is not octal: use a string such as \"0750\"", o.Mode)
	}
	if !slices.Contains(ownerPolicies, o.Policy) {
		wrong("owner.policy %q is unknown: use one of %s", o.Policy, strings.Join(ownerPolicies[1:], ", "))
	}
	for i, c := range v.RequestedCapabilities {
		if c != nil && c.AttachmentMode == api.AttachmentBlock {
			wrong("owner: capability %d is a block device, which has no file system to own: leave out owner or use attachment_mode %s", i+1, api.AttachmentFileSystem)
		}
	}
	return errs
}

var nodeLoss = []string{"", api.NodeLossFence, api.NodeLossWait, api.NodeLossAssume}

// Leases are bounded from below because nodes send three heartbeats in each, and from above because nodes and servers
// add them to the time: an endless one would overflow and end at once.
const (
	leaseMin = time.Second
	leaseMax = 365 * 24 * time.Hour
)

// lossErrors checks what shall be done when a node is lost.
func lossErrors(v *api.VolumeSpec) (errs []error) {
	if !slices.Contains(nodeLoss, v.OnNodeLoss) {
		errs = append(errs, fmt.Errorf("on_node_loss %q is unknown: use one of %s", v.OnNodeLoss, strings.Join(nodeLoss[1:], ", ")))
	}
	if v.FenceAfter < 0 {
		errs = append(errs, fmt.Errorf("fence_after %s is negative", v.FenceAfter))
	}
	if v.Lease < 0 || v.Lease > 0 && v.Lease < leaseMin {
		errs = append(errs, fmt.Errorf("lease %s is too short: use %s or more, or leave it out for %s", v.Lease, leaseMin, ledger.LeaseDefault))
	}
	if v.Lease > leaseMax {
		errs = append(errs, fmt.Errorf("lease %s is too long: use %s or less, and on_node_loss = %q where no lease shall move the volume", v.Lease, leaseMax, api.NodeLossWait))
	}
	if v.WriteBack < 0 || v.WriteBack > cmp.Or(v.Lease, ledger.LeaseDefault)/2 {
		errs = append(errs, fmt.Errorf("write_back %s does not fit: it is a part of the lease (%s), and half of it at most", v.WriteBack, cmp.Or(v.Lease, ledger.LeaseDefault)))
	}
	return errs
}
