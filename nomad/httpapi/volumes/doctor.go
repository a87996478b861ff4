package volumes

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// doctorRoutes are the project's own: no other implementation has them.
var doctorRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/volumes/doctor", Serve: volumeDoctor},
	{Method: "GET", Pattern: "/v1/volume/csi/:id/doctor", Serve: volumeDoctor},
	{Method: "PUT", Pattern: "/v1/volume/csi/:id/doctor", Serve: volumeRepair},
	{Method: "GET", Pattern: "/v1/volume/csi/:id/timeline", Serve: volumeTimeline},
	{Method: "GET", Pattern: "/v1/plugins/doctor", Serve: pluginDoctor},
	{Method: "GET", Pattern: "/v1/plugin/csi/:id/doctor", Serve: pluginDoctor},
}

// volumeReport is the body of a report on volumes.
type volumeReport struct {
	Volumes  int
	Findings []*api.StorageFinding
	Omitted  int `json:",omitempty"`
}

func volumeDoctor(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.VolumeDoctor, &api.VolumeDoctorRequest{ID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if c.ID != "" && out.Volumes == 0 {
		return nil, endpoint.Missing("volume not found")
	}
	return volumeReport{out.Volumes, endpoint.List(out.Findings), out.Omitted}, nil
}

func volumeRepair(c *endpoint.Call) (any, error) {
	out, err := wire.VolumeRepair.Call(c.Context(), c.Servers, &api.VolumeRepairRequest{ID: c.ID, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return struct {
		Repairs  []*api.VolumeRepair
		Findings []*api.StorageFinding
	}{endpoint.List(out.Repairs), endpoint.List(out.Findings)}, nil
}

func volumeTimeline(c *endpoint.Call) (any, error) {
	last := 0
	if text := c.Params.Get("last"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "last must be a number of entries, not %q", text)
		}
		last = n
	}
	out, err := endpoint.Read(c, wire.VolumeTimeline, &api.VolumeTimelineRequest{ID: c.ID, Last: last, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if !out.Known {
		return nil, endpoint.Missing("volume not found")
	}
	return endpoint.List(out.Events), nil
}

func pluginDoctor(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.PluginDoctor, &api.PluginDoctorRequest{ID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if c.ID != "" && out.Plugins == 0 {
		return nil, endpoint.Missing("plugin not found")
	}
	return struct {
		Plugins  []*api.PluginReport
		Findings []*api.StorageFinding
	}{endpoint.List(out.Reports), endpoint.List(out.Findings)}, nil
}
