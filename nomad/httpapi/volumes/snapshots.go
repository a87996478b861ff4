package volumes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// secretsHeader carries secrets of requests without a body.
const secretsHeader = "X-Nomad-CSI-Secrets"

// secretsOf reads secrets: "k=v,k=v", or a JSON object, which can hold any value.
func secretsOf(h http.Header) (map[string]string, error) {
	text := strings.TrimSpace(h.Get(secretsHeader))
	if text == "" {
		return nil, nil
	}
	secrets := map[string]string{}
	if strings.HasPrefix(text, "{") {
		if err := json.Unmarshal([]byte(text), &secrets); err != nil {
			return nil, fault.New(fault.Invalid, "header %s is not a JSON object of strings", secretsHeader)
		}
		return secrets, nil
	}
	for i, pair := range strings.Split(text, ",") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, fault.New(fault.Invalid, "secret %d of header %s is not key=value", i+1, secretsHeader)
		}
		secrets[k] = v
	}
	return secrets, nil
}

func snapshotCreate(c *endpoint.Call) (any, error) {
	var body struct{ Snapshots []*api.Snapshot }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if len(body.Snapshots) == 0 {
		return nil, fault.New(fault.Invalid, "Snapshots of the request body is empty: name at least one")
	}
	for i, s := range body.Snapshots {
		if s == nil || s.SourceVolumeID == "" {
			return nil, fault.New(fault.Invalid, "snapshot %d of the request body has no SourceVolumeID", i+1)
		}
	}
	out, err := wire.VolumeSnapshotCreate.Call(c.Context(), c.Servers, &api.SnapshotCreateRequest{Snapshots: body.Snapshots, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return snapshotsShown(out), nil
}

func snapshotsShown(out *api.SnapshotListResponse) *api.SnapshotListResponse {
	answer := *out
	answer.Snapshots = slices.Clone(endpoint.List(out.Snapshots))
	for i, s := range answer.Snapshots {
		shown := *s
		shown.Secrets = nil
		answer.Snapshots[i] = &shown
	}
	return &answer
}

func snapshotList(c *endpoint.Call) (any, error) {
	secrets, err := secretsOf(c.R.Header)
	if err != nil {
		return nil, err
	}
	plugin := c.Params.Get("plugin_id")
	if plugin == "" {
		return nil, fault.New(fault.Invalid, "plugin_id is missing: name the plugin whose snapshots to list")
	}
	out, err := wire.VolumeSnapshotList.Call(c.Context(), c.Servers, &api.SnapshotListRequest{PluginID: plugin, Secrets: secrets, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return snapshotsView{snapshotsShown(out), readProvider(c)}, nil
}

func snapshotDelete(c *endpoint.Call) (any, error) {
	secrets, err := secretsOf(c.R.Header)
	if err != nil {
		return nil, err
	}
	plugin, id := c.Params.Get("plugin_id"), c.Params.Get("snapshot_id")
	if plugin == "" || id == "" {
		return nil, fault.New(fault.Invalid, "plugin_id and snapshot_id are needed to delete a snapshot")
	}
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	out, err := wire.VolumeSnapshotDelete.Call(c.Context(), c.Servers,
		&api.SnapshotDeleteRequest{ID: id, PluginID: plugin, Secrets: secrets, Force: force, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return warned(out.Warnings)
}
