package csi

import (
	"context"
	"errors"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// verifyPages bounds the search of a provider's list, of 1000 entries each.
const verifyPages = 1000

// Verify asks what the provider knows of a volume or snapshot, by the best call that the plugin has: of a volume
// ControllerGetVolume, ListVolumes or ValidateVolumeCapabilities; of a snapshot GetSnapshot or ListSnapshots.
// What no RPC reports is [api.KnownNothing]. An error means that the plugin could not report it now.
//
// A volume that does not exist is attached to no node.
func (c *Client) Verify(ctx context.Context, r *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	if err := checkMap("secrets", r.Secrets); err != nil {
		return nil, err
	}
	if r.Snapshot {
		return c.verifySnapshot(ctx, r)
	}
	if r.ExternalID == "" {
		return &api.ControllerVerifyResponse{}, nil // no call asks by name
	}
	caps, err := c.needs(ctx, "Verify", nil)
	if err != nil {
		return nil, err
	}
	if caps.Controller.SupportsGet {
		out, err := c.verifyByGet(ctx, r, caps)
		if VerdictOf(err) != fault.VerdictChanged {
			return out, err
		}
	}
	if caps.Controller.SupportsListVolumes {
		out, err := c.verifyByList(ctx, r, caps)
		if err == nil && out != nil || err != nil && VerdictOf(err) != fault.VerdictChanged {
			return out, err
		}
	}
	return c.verifyByValidate(ctx, r)
}

func missing(by string) *api.ControllerVerifyResponse {
	return &api.ControllerVerifyResponse{Exists: api.KnownNo, Attached: api.KnownNo, By: by}
}

// found is the reply of a call that reports the size of a volume, and its nodes if the plugin has that capability.
func found(r *api.ControllerVerifyRequest, caps *Capabilities, nodes []string, bytes int64, by string) *api.ControllerVerifyResponse {
	out := &api.ControllerVerifyResponse{Exists: api.KnownYes, By: by, CapacityBytes: max(bytes, 0)}
	if r.ProviderNodeID == "" || !caps.Controller.SupportsListVolumesAttachedNodes {
		return out
	}
	out.Attached = api.KnownNo
	if slices.Contains(nodes, r.ProviderNodeID) {
		out.Attached = api.KnownYes
	}
	return out
}

func (c *Client) verifyByGet(ctx context.Context, r *api.ControllerVerifyRequest, caps *Capabilities) (*api.ControllerVerifyResponse, error) {
	const rpc = "ControllerGetVolume"
	resp, err := call(ctx, c, rpc, c.controller.ControllerGetVolume, &pb.ControllerGetVolumeRequest{VolumeId: r.ExternalID})
	switch {
	case errors.Is(err, fault.NotFound):
		return missing(rpc), nil
	case err != nil:
		return nil, err
	case resp.GetVolume().GetVolumeId() != r.ExternalID:
		return nil, hole(rpc, "another volume")
	}
	return found(r, caps, resp.GetStatus().GetPublishedNodeIds(), resp.GetVolume().GetCapacityBytes(), rpc), nil
}

// verifyByList searches the provider's list. A volume that is not in it may still exist, for a list is no
// snapshot of the provider and some plugins list only a part: nil then, and another call must decide.
func (c *Client) verifyByList(ctx context.Context, r *api.ControllerVerifyRequest, caps *Capabilities) (*api.ControllerVerifyResponse, error) {
	next, seen := &api.ControllerListRequest{MaxEntries: pageMax}, pages{}
	for range verifyPages {
		list, err := c.ListVolumes(ctx, next)
		if err != nil {
			return nil, err
		}
		for _, v := range list.Volumes {
			if v.ExternalID == r.ExternalID {
				return found(r, caps, v.PublishedExternalNodeIDs, v.CapacityBytes, "ListVolumes"), nil
			}
		}
		if next.Token = list.NextToken; next.Token == "" {
			break
		}
		if err := seen.next("ListVolumes", next.Token); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// pages are the tokens of a list that is read to its end.
type pages map[string]bool

// next rejects a page token that was used already: the list would never end.
func (p pages) next(rpc, token string) error {
	if p[token] {
		return hole(rpc, "a page that it had answered before: the driver repeats its pages")
	}
	p[token] = true
	return nil
}

// verifyByValidate learns only whether the volume exists.
func (c *Client) verifyByValidate(ctx context.Context, r *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	const rpc = "ValidateVolumeCapabilities"
	wants := r.Capabilities
	if len(wants) == 0 {
		wants = []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}}
	}
	_, err := c.Validate(ctx, &api.ControllerValidateRequest{
		ExternalID: r.ExternalID, Capabilities: wants, MountOptions: r.MountOptions, Secrets: r.Secrets, Context: r.Context,
	})
	var said *fault.Call
	switch {
	case err == nil, errors.Is(err, fault.Invalid) && !errors.As(err, &said):
		return &api.ControllerVerifyResponse{Exists: api.KnownYes, By: rpc}, nil // confirmed, or refused for what it is
	case errors.Is(err, fault.NotFound):
		return missing(rpc), nil
	case VerdictOf(err) == fault.VerdictChanged:
		return &api.ControllerVerifyResponse{}, nil
	}
	return nil, err
}

// verifySnapshot looks up a snapshot by id. Without an id the only conclusive reply is that a volume has no snapshot
// at all, because CSI does not return names.
func (c *Client) verifySnapshot(ctx context.Context, r *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	if r.ExternalID == "" {
		return c.verifyAnySnapshot(ctx, r)
	}
	s, by, err := c.findSnapshot(ctx, r.ExternalID, r.SourceID, r.Secrets)
	switch {
	case errors.Is(err, errNoCall), VerdictOf(err) == fault.VerdictChanged:
		return &api.ControllerVerifyResponse{}, nil
	case err != nil:
		return nil, err
	case s == nil:
		return &api.ControllerVerifyResponse{Exists: api.KnownNo, By: by}, nil
	}
	return &api.ControllerVerifyResponse{Exists: api.KnownYes, By: by}, nil
}

func (c *Client) verifyAnySnapshot(ctx context.Context, r *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	none := &api.ControllerVerifyResponse{}
	caps, err := c.needs(ctx, "Verify", nil)
	if err != nil || r.SourceID == "" || !caps.Controller.SupportsListSnapshots {
		return none, err
	}
	list, err := c.ListSnapshots(ctx, &api.ControllerSnapshotListRequest{SourceID: r.SourceID, Secrets: r.Secrets})
	if err != nil {
		return nil, err
	}
	if len(list.Snapshots) == 0 && list.NextToken == "" {
		none.Exists, none.By = api.KnownNo, "ListSnapshots"
	}
	return none, nil
}
