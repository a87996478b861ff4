package volumes

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var hostRoutes = []endpoint.Route{
	{Method: "PUT", Pattern: "/v1/volume/host/create", Serve: hostCreate},
	{Method: "PUT", Pattern: "/v1/volume/host/register", Serve: hostRegister},
	{Method: "GET", Pattern: "/v1/volume/host/:id", Serve: hostGet},
	{Method: "DELETE", Pattern: "/v1/volume/host/:id", Serve: hostDelete},
	{Method: "GET", Pattern: "/v1/volumes/claims", Serve: hostClaims},
	{Method: "DELETE", Pattern: "/v1/volumes/claim/:id", Serve: hostClaimDelete},
}

func hostList(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.HostVolumeList, &api.HostVolumeListRequest{
		NodeID: c.Params.Get("node_id"), NodePool: c.Params.Get("node_pool"), QueryOptions: c.Query,
	})
	if err != nil {
		return nil, err
	}
	return endpoint.List(out.Volumes), nil
}

func hostGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.HostVolumeGet, &api.HostVolumeGetRequest{ID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Volume, "volume not found")
}

func hostCreate(c *endpoint.Call) (any, error)   { return hostWrite(c, wire.HostVolumeCreate) }
func hostRegister(c *endpoint.Call) (any, error) { return hostWrite(c, wire.HostVolumeRegister) }

func hostWrite(c *endpoint.Call, m wire.Method[api.HostVolumeWriteRequest, api.HostVolumeWriteResponse]) (any, error) {
	var body struct {
		Volume         *api.HostVolume
		PolicyOverride bool
	}
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if body.Volume == nil {
		return nil, fault.New(fault.Invalid, "missing volume definition")
	}
	return endpoint.Write(c, m, &api.HostVolumeWriteRequest{Volume: body.Volume, WriteRequest: c.Writes()})
}

func hostDelete(c *endpoint.Call) (any, error) {
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	out, err := wire.HostVolumeDelete.Call(c.Context(), c.Servers, &api.HostVolumeDeleteRequest{ID: c.ID, Force: force, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	c.SetWrote(*out)
	return struct{}{}, nil
}

func hostClaims(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.HostVolumeClaims, &api.HostVolumeClaimListRequest{
		JobID: c.Params.Get("job_id"), TaskGroup: c.Params.Get("task_group"), VolumeName: c.Params.Get("volume_name"), QueryOptions: c.Query,
	})
	if err != nil {
		return nil, err
	}
	return endpoint.List(out.Claims), nil
}

func hostClaimDelete(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.HostVolumeClaimDelete, &api.HostVolumeClaimDeleteRequest{ID: c.ID, WriteRequest: c.Writes()})
}
