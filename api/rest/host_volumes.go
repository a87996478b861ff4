package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// HostVolumes lists dynamic host volumes; Params may hold node_id and node_pool.
func (c *Client) HostVolumes(ctx context.Context, q Query) ([]*api.HostVolumeStub, Meta, error) {
	return get[[]*api.HostVolumeStub](ctx, c, q.with("type", api.VolumeTypeHost), "volumes")
}

// HostVolume reads one dynamic host volume.
func (c *Client) HostVolume(ctx context.Context, id string, q Query) (*api.HostVolume, Meta, error) {
	return get[*api.HostVolume](ctx, c, q, "volume", "host", id)
}

type hostVolumeBody struct{ Volume *api.HostVolume }

// CreateHostVolume creates a volume on a node, or updates its capabilities when it has an id.
func (c *Client) CreateHostVolume(ctx context.Context, v *api.HostVolume) (*api.HostVolumeWriteResponse, error) {
	return put[api.HostVolumeWriteResponse](ctx, c, url.Values{"namespace": {v.Namespace}}, hostVolumeBody{v}, "volume", "host", "create")
}

// RegisterHostVolume makes a directory of a node a volume.
func (c *Client) RegisterHostVolume(ctx context.Context, v *api.HostVolume) (*api.HostVolumeWriteResponse, error) {
	return put[api.HostVolumeWriteResponse](ctx, c, url.Values{"namespace": {v.Namespace}}, hostVolumeBody{v}, "volume", "host", "register")
}

// DeleteHostVolume deletes a volume; with force also when its node does not respond.
func (c *Client) DeleteHostVolume(ctx context.Context, id string, force bool) error {
	v := url.Values{}
	if force {
		v.Set("force", "true")
	}
	_, err := c.do(ctx, http.MethodDelete, []string{"volume", "host", id}, v, nil, nil)
	return err
}

// HostVolumeClaims lists the claims on sticky host volumes; Params may hold job_id, task_group and volume_name.
func (c *Client) HostVolumeClaims(ctx context.Context, q Query) ([]*api.HostVolumeClaim, Meta, error) {
	return get[[]*api.HostVolumeClaim](ctx, c, q, "volumes", "claims")
}

// DeleteHostVolumeClaim deletes a claim on a sticky host volume.
func (c *Client) DeleteHostVolumeClaim(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"volumes", "claim", id}, nil, nil, nil)
	return err
}
