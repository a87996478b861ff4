package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Volumes lists CSI volumes; Params may hold plugin_id and node_id.
func (c *Client) Volumes(ctx context.Context, q Query) ([]*api.VolumeStub, Meta, error) {
	return get[[]*api.VolumeStub](ctx, c, q.with("type", api.VolumeTypeCSI), "volumes")
}

// Volume reads one CSI volume.
func (c *Client) Volume(ctx context.Context, id string, q Query) (*api.VolumeDetail, Meta, error) {
	return get[*api.VolumeDetail](ctx, c, q, "volume", "csi", id)
}

type volumesBody struct{ Volumes []*api.VolumeSpec }

// RegisterVolume registers a volume that exists at its provider.
func (c *Client) RegisterVolume(ctx context.Context, v *api.VolumeSpec) (*api.VolumeWriteResponse, error) {
	return put[api.VolumeWriteResponse](ctx, c, inVolume(v), volumesBody{[]*api.VolumeSpec{v}}, "volume", "csi", v.ID)
}

// CreateVolume creates a volume at its provider and registers it.
func (c *Client) CreateVolume(ctx context.Context, v *api.VolumeSpec) (*api.VolumeWriteResponse, error) {
	return put[api.VolumeWriteResponse](ctx, c, inVolume(v), volumesBody{[]*api.VolumeSpec{v}}, "volume", "csi", v.ID, "create")
}

func inVolume(v *api.VolumeSpec) url.Values {
	if v.Namespace == "" {
		return nil
	}
	return url.Values{"namespace": {v.Namespace}}
}

// DeregisterVolume forgets a volume without touching its provider.
func (c *Client) DeregisterVolume(ctx context.Context, id string, force bool) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"volume", "csi", id}, url.Values{"force": {strconv.FormatBool(force)}}, nil, nil)
	return err
}

// DeleteVolume deletes a volume at its provider and forgets it.
func (c *Client) DeleteVolume(ctx context.Context, id string, secrets map[string]string) error {
	r, err := c.request(ctx, http.MethodDelete, []string{"volume", "csi", id, "delete"}, nil, nil)
	if err != nil {
		return err
	}
	if err := setSecrets(r, secrets); err != nil {
		return err
	}
	_, err = c.finish(r, nil)
	return err
}

// setSecrets sends secrets in a header, as JSON because values may hold anything.
func setSecrets(r *http.Request, secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return fault.New(fault.Invalid, "encode secrets: %w", err)
	}
	r.Header.Set("X-Nomad-CSI-Secrets", string(text))
	return nil
}

// Assertion is an operator's word that a node no longer uses a volume, and why; it is recorded.
type Assertion struct {
	Force  bool
	Reason string
}

func (a Assertion) values(node string) url.Values {
	v := url.Values{"node": {node}, "force": {strconv.FormatBool(a.Force)}}
	if a.Reason != "" {
		v.Set("reason", a.Reason)
	}
	return v
}

// DetachVolume ends what a volume has on a node. With force the operator's word ends claims, attachments and mounts that
// neither node nor driver ends; the warnings say what the node may still have mounted.
func (c *Client) DetachVolume(ctx context.Context, id, node string, a Assertion) (warnings string, err error) {
	return c.detach(ctx, []string{"volume", "csi", id, "detach"}, a.values(node))
}

// DetachExternal is [Client.DetachVolume] for a volume that no specification names any more, by its plugin and the
// driver's id of it.
func (c *Client) DetachExternal(ctx context.Context, plugin, external, node string, a Assertion) (warnings string, err error) {
	v := a.values(node)
	v.Set("plugin_id", plugin)
	v.Set("external_id", external)
	return c.detach(ctx, []string{"volumes", "attachments"}, v)
}

func (c *Client) detach(ctx context.Context, path []string, v url.Values) (warnings string, err error) {
	var out struct{ Warnings string }
	_, err = c.do(ctx, http.MethodDelete, path, v, nil, &out)
	if errors.Is(err, io.EOF) { // there are no warnings
		err = nil
	}
	return out.Warnings, err
}

// Attachments lists what is attached to nodes, and mounts of claims that were given up; Params may hold node_id,
// plugin_id and volume_id.
func (c *Client) Attachments(ctx context.Context, q Query) ([]*api.AttachmentStub, Meta, error) {
	return get[[]*api.AttachmentStub](ctx, c, q, "volumes", "attachments")
}

// ExternalVolumes lists a page of the volumes of a provider.
func (c *Client) ExternalVolumes(ctx context.Context, plugin string, q Query) (*api.VolumeListExternalResponse, error) {
	out, _, err := get[*api.VolumeListExternalResponse](ctx, c, q.with("plugin_id", plugin), "volumes", "external")
	return out, err
}

// CreateSnapshot makes a snapshot.
func (c *Client) CreateSnapshot(ctx context.Context, s *api.Snapshot) (*api.SnapshotListResponse, error) {
	body := struct{ Snapshots []*api.Snapshot }{[]*api.Snapshot{s}}
	return put[api.SnapshotListResponse](ctx, c, nil, body, "volumes", "snapshot")
}

// DeleteSnapshot deletes a snapshot at its provider. With force what is intended with it is forgotten instead; what may
// be left of it is the answer.
func (c *Client) DeleteSnapshot(ctx context.Context, plugin, id string, secrets map[string]string, force bool) (warnings string, err error) {
	v := url.Values{"plugin_id": {plugin}, "snapshot_id": {id}}
	if force {
		v.Set("force", "true")
	}
	r, err := c.request(ctx, http.MethodDelete, []string{"volumes", "snapshot"}, v, nil)
	if err != nil {
		return "", err
	}
	if err := setSecrets(r, secrets); err != nil {
		return "", err
	}
	if !force {
		_, err = c.finish(r, nil)
		return "", err
	}
	var out struct{ Warnings string }
	_, err = c.finish(r, &out)
	return out.Warnings, err
}

// Snapshots lists a page of the snapshots of a provider.
func (c *Client) Snapshots(ctx context.Context, plugin string, secrets map[string]string, q Query) (*api.SnapshotListResponse, error) {
	r, err := c.request(ctx, http.MethodGet, []string{"volumes", "snapshot"}, q.with("plugin_id", plugin).values(), nil)
	if err != nil {
		return nil, err
	}
	if err := setSecrets(r, secrets); err != nil {
		return nil, err
	}
	var out api.SnapshotListResponse
	_, err = c.finish(r, &out)
	return &out, err
}

// Plugins lists CSI plugins.
func (c *Client) Plugins(ctx context.Context, q Query) ([]*api.PluginStub, Meta, error) {
	return get[[]*api.PluginStub](ctx, c, q.with("type", api.VolumeTypeCSI), "plugins")
}

// Plugin reads one CSI plugin.
func (c *Client) Plugin(ctx context.Context, id string, q Query) (*api.Plugin, Meta, error) {
	return get[*api.Plugin](ctx, c, q, "plugin", "csi", id)
}
