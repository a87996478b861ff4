package rest

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

// VolumeReport is a report on one volume, or on all of a namespace.
type VolumeReport struct {
	// Volumes counts the volumes that were examined.
	Volumes  int
	Findings []*api.StorageFinding
	// Omitted counts the findings beyond the limit of a response.
	Omitted int `json:",omitempty"`
}

// VolumeDoctor reports what is wrong with a volume, or with all volumes of the query's namespace if id is empty.
func (c *Client) VolumeDoctor(ctx context.Context, id string, q Query) (*VolumeReport, error) {
	path := []string{"volumes", "doctor"}
	if id != "" {
		path = []string{"volume", "csi", id, "doctor"}
	}
	out, _, err := get[*VolumeReport](ctx, c, q, path...)
	return out, err
}

// VolumeRepairs are the repairs of a volume and the findings that were there before.
type VolumeRepairs struct {
	Repairs  []*api.VolumeRepair
	Findings []*api.StorageFinding
}

// RepairVolume makes the safe repairs of a volume's findings.
func (c *Client) RepairVolume(ctx context.Context, id string) (*VolumeRepairs, error) {
	return put[VolumeRepairs](ctx, c, nil, struct{}{}, "volume", "csi", id, "doctor")
}

// VolumeTimeline lists what happened to a volume, oldest first; Params may hold last, the number of entries.
func (c *Client) VolumeTimeline(ctx context.Context, id string, q Query) ([]*api.VolumeEvent, Meta, error) {
	return get[[]*api.VolumeEvent](ctx, c, q, "volume", "csi", id, "timeline")
}

// PluginsReport lists plugins with their instances, and what is wrong with them.
type PluginsReport struct {
	Plugins  []*api.PluginReport
	Findings []*api.StorageFinding
}

// PluginDoctor calls the instances of a CSI plugin, or of all if id is empty, and reports what is wrong with them.
func (c *Client) PluginDoctor(ctx context.Context, id string) (*PluginsReport, error) {
	path := []string{"plugins", "doctor"}
	if id != "" {
		path = []string{"plugin", "csi", id, "doctor"}
	}
	out, _, err := get[*PluginsReport](ctx, c, Query{}, path...)
	return out, err
}
