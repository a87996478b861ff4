package ledger

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Check reports whether Take would succeed: fault.NotFound for a missing volume, fault.Conflict with
// who holds it otherwise. stopping names allocations that the same plan stops.
func Check(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	return each(alloc, func(req *api.VolumeRequest) error {
		_, _, err := judge(tx, alloc, req, stopping)
		return err
	})
}

// Take writes the claims of all CSI volumes of the allocation's group: taken, or waiting behind a
// predecessor that is being stopped.
func Take(tx *state.Txn, alloc *api.Allocation, stopping map[string]bool) error {
	return each(alloc, func(req *api.VolumeRequest) error {
		v, answer, err := judge(tx, alloc, req, stopping)
		if err != nil {
			return err
		}
		if tx.Claim(v.Namespace, v.ID, alloc.ID) != nil {
			return nil
		}
		c := newClaim(tx, v, alloc, req)
		if answer.Verdict == claim.Waits {
			c.State, c.Predecessor = api.ClaimWaiting, answer.Predecessor
		}
		tx.PutClaim(c)
		return settle(tx, c.PluginID, c.ExternalID)
	})
}

// each visits the CSI volume requests of the allocation's group in order of their names.
func each(alloc *api.Allocation, do func(*api.VolumeRequest) error) error {
	g := alloc.Group()
	if g == nil {
		return nil
	}
	var names []string
	for name, req := range g.Volumes {
		if req.Type == api.VolumeTypeCSI {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := do(g.Volumes[name]); err != nil {
			return err
		}
	}
	return nil
}

func judge(tx *state.Txn, alloc *api.Allocation, req *api.VolumeRequest, stopping map[string]bool) (*api.Volume, claim.Answer, error) {
	id := claim.Source(req, alloc.Name)
	v := tx.Volume(alloc.Namespace, id)
	if v == nil {
		return nil, claim.Answer{}, fault.New(fault.NotFound, "volume %q in namespace %q does not exist", id, alloc.Namespace)
	}
	others := slices.Collect(tx.ClaimsByExternal(v.PluginID, v.RemoteID()))
	answer := claim.Fits(v, others, requestFor(alloc, req), stopping)
	if answer.Verdict == claim.Refused {
		return v, answer, fault.New(fault.Conflict, "%s", answer.Reason)
	}
	return v, answer, nil
}

func requestFor(alloc *api.Allocation, req *api.VolumeRequest) claim.Request {
	return claim.Request{
		AllocID: alloc.ID, JobID: alloc.JobID, Namespace: alloc.Namespace, TaskGroup: alloc.TaskGroup, NodeID: alloc.NodeID,
		ReadOnly: req.ReadOnly, AccessMode: api.AccessMode(req.AccessMode), AttachmentMode: api.AttachmentMode(req.AttachmentMode),
	}
}

// newClaim records everything that releasing the claim needs.
func newClaim(tx *state.Txn, v *api.Volume, alloc *api.Allocation, req *api.VolumeRequest) *api.VolumeClaim {
	r, _ := claim.Capable(v, requestFor(alloc, req))
	return &api.VolumeClaim{
		Namespace: v.Namespace, VolumeID: v.ID, AllocID: alloc.ID, NodeID: alloc.NodeID, JobID: alloc.JobID,
		TaskGroup: alloc.TaskGroup, PluginID: v.PluginID, ExternalID: v.RemoteID(),
		Mode: claim.ModeOf(req.ReadOnly, r.AccessMode), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode,
		MountOptions: merge(v.MountOptions, req.MountOptions), State: api.ClaimTaken, Since: tx.Now().UnixNano(),
	}
}

// merge lets the request's mount options replace the volume's, field by field.
func merge(volume, request *api.MountOptions) *api.MountOptions {
	if request == nil {
		return volume
	}
	merged := *request
	if volume != nil {
		if merged.FSType == "" {
			merged.FSType = volume.FSType
		}
		if merged.MountFlags == nil {
			merged.MountFlags = volume.MountFlags
		}
	}
	return &merged
}

// move changes the state of a claim as an outside event asks.
func move(tx *state.Txn, c *api.VolumeClaim, to api.ClaimState) error {
	if c.State == to {
		return nil
	}
	if !claim.Legal(c.State, to) {
		return fault.New(fault.Conflict, "claim of allocation %s on volume %q is %s and cannot become %s", c.AllocID, c.VolumeID, c.State, to)
	}
	next := *c
	next.State, next.Since, next.LastError, next.NextRetry = to, tx.Now().UnixNano(), "", 0
	tx.PutClaim(&next)
	return nil
}

func describe(c *api.VolumeClaim) string {
	return fmt.Sprintf("claim of allocation %s on volume %q", c.AllocID, c.VolumeID)
}
