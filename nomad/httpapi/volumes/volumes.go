package volumes

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of volumes, of their snapshots and of CSI plugins.
func Routes() []endpoint.Route {
	return slices.Concat(volumeRoutes, hostRoutes, doctorRoutes, pluginRoutes)
}

var volumeRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/volumes", Serve: volumeList},
	{Method: "PUT", Pattern: "/v1/volumes", Serve: volumeRegister},
	{Method: "GET", Pattern: "/v1/volumes/external", Serve: volumeExternal},
	{Method: "GET", Pattern: "/v1/volumes/attachments", Serve: volumeAttachments},
	{Method: "DELETE", Pattern: "/v1/volumes/attachments", Serve: attachmentEnd},
	{Method: "GET", Pattern: "/v1/volumes/snapshot", Serve: snapshotList},
	{Method: "PUT", Pattern: "/v1/volumes/snapshot", Serve: snapshotCreate},
	{Method: "DELETE", Pattern: "/v1/volumes/snapshot", Serve: snapshotDelete},
	{Method: "GET", Pattern: "/v1/volume/csi/:id", Serve: volumeGet},
	{Method: "PUT", Pattern: "/v1/volume/csi/:id", Serve: volumeRegister},
	{Method: "DELETE", Pattern: "/v1/volume/csi/:id", Serve: volumeDeregister},
	{Method: "PUT", Pattern: "/v1/volume/csi/:id/create", Serve: volumeCreate},
	{Method: "DELETE", Pattern: "/v1/volume/csi/:id/delete", Serve: volumeDelete},
	{Method: "PUT", Pattern: "/v1/volume/csi/:id/delete", Serve: volumeDelete},
	{Method: "DELETE", Pattern: "/v1/volume/csi/:id/detach", Serve: volumeDetach},
	{Method: "PUT", Pattern: "/v1/volume/csi/:id/detach", Serve: volumeDetach},
}

func volumeList(c *endpoint.Call) (any, error) {
	switch kind := c.Params.Get("type"); kind {
	case "":
		return []*api.VolumeStub{}, nil
	case api.VolumeTypeHost:
		return hostList(c)
	case api.VolumeTypeCSI:
	default:
		return nil, fault.New(fault.NotFound, "there are no volumes of type %q, only csi and host", kind)
	}
	out, err := endpoint.Read(c, wire.VolumeList, &api.VolumeListRequest{
		PluginID: c.Params.Get("plugin_id"), NodeID: c.Params.Get("node_id"), QueryOptions: c.Query,
	})
	if err != nil {
		return nil, err
	}
	return out.Volumes, nil
}

func volumeGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.VolumeGet, &api.VolumeGetRequest{ID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Volume == nil {
		return nil, endpoint.Missing("volume not found")
	}
	return shown(out.Volume), nil
}

// shown is a volume as users see it: no secrets, and alloc ids without the allocations.
func shown(v *api.VolumeDetail) *api.VolumeDetail {
	if v == nil {
		return nil
	}
	d := *v
	d.VolumeSpec = *mask.Redacted(&v.VolumeSpec)
	d.ReadAllocs, d.WriteAllocs = onlyIDs(v.ReadAllocs), onlyIDs(v.WriteAllocs)
	d.Allocations = endpoint.List(v.Allocations)
	return &d
}

func onlyIDs(allocs map[string]*api.Allocation) map[string]*api.Allocation {
	ids := make(map[string]*api.Allocation, len(allocs))
	for id := range allocs {
		ids[id] = nil
	}
	return ids
}

// specs decodes the volumes of a register or create. Fields of the body that a spec does not have are ignored.
func specs(c *endpoint.Call) ([]*api.VolumeSpec, error) {
	var body struct{ Volumes []*api.VolumeSpec }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if len(body.Volumes) == 0 {
		return nil, fault.New(fault.Invalid, "Volumes of the request body is empty: name at least one volume")
	}
	for i, v := range body.Volumes {
		if v == nil || v.ID == "" {
			return nil, fault.New(fault.Invalid, "volume %d of the request body has no ID", i+1)
		}
		if c.ID != "" && v.ID != c.ID {
			return nil, fault.New(fault.Invalid, "volume id %q of the body is not %q of the path", v.ID, c.ID)
		}
		if v.Namespace == "" {
			v.Namespace = c.Query.Namespace
		}
	}
	return body.Volumes, nil
}

func volumeRegister(c *endpoint.Call) (any, error) {
	// A verb that there is not is no part of an id, whose slashes are escaped.
	if strings.Contains(c.ID, "/") && strings.Contains(c.R.URL.EscapedPath(), c.ID) {
		return nil, endpoint.Missing("resource not found: " + c.R.URL.Path)
	}
	v, err := specs(c)
	if err != nil {
		return nil, err
	}
	return volumesWrote(c)(wire.VolumeRegister.Call(c.Context(), c.Servers, &api.VolumeRegisterRequest{Volumes: v, WriteRequest: c.Writes()}))
}

func volumeCreate(c *endpoint.Call) (any, error) {
	v, err := specs(c)
	if err != nil {
		return nil, err
	}
	return volumesWrote(c)(wire.VolumeCreate.Call(c.Context(), c.Servers, &api.VolumeCreateRequest{Volumes: v, WriteRequest: c.Writes()}))
}

func volumesWrote(c *endpoint.Call) func(*api.VolumeWriteResponse, error) (any, error) {
	return func(out *api.VolumeWriteResponse, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.SetWrote(out.WriteMeta)
		answer := *out
		answer.Volumes = slices.Clone(endpoint.List(out.Volumes))
		for i, v := range answer.Volumes {
			answer.Volumes[i] = shown(v)
		}
		return answer, nil
	}
}

func volumeDeregister(c *endpoint.Call) (any, error) {
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	return endpoint.WriteEmpty(c, wire.VolumeDeregister, &api.VolumeDeregisterRequest{VolumeID: c.ID, Force: force, WriteRequest: c.Writes()})
}

func volumeDelete(c *endpoint.Call) (any, error) {
	secrets, err := secretsOf(c.R.Header)
	if err != nil {
		return nil, err
	}
	return endpoint.WriteEmpty(c, wire.VolumeDelete, &api.VolumeDeleteRequest{VolumeID: c.ID, Secrets: secrets, WriteRequest: c.Writes()})
}

func volumeDetach(c *endpoint.Call) (any, error) {
	return detach(c, &api.VolumeDetachRequest{VolumeID: c.ID})
}

// detach adds to the request what all ways to ask for it have in common. Who asks is known by address only.
func detach(c *endpoint.Call, r *api.VolumeDetachRequest) (any, error) {
	r.NodeID, r.Reason, r.WriteRequest = c.Params.Get("node"), c.Params.Get("reason"), c.Writes()
	if r.NodeID == "" {
		return nil, fault.New(fault.Invalid, "detach requires node ID")
	}
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	r.Force = force
	if host, _, err := net.SplitHostPort(c.R.RemoteAddr); err == nil {
		r.By = "from " + host
	}
	out, err := wire.VolumeDetach.Call(c.Context(), c.Servers, r)
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return warned(out.Warnings)
}

// warned returns warnings, or nothing when there are none.
func warned(warnings string) (any, error) {
	if warnings == "" {
		return nil, nil
	}
	return struct{ Warnings string }{warnings}, nil
}

func volumeAttachments(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.VolumeAttachments, &api.VolumeAttachmentListRequest{
		NodeID: c.Params.Get("node_id"), PluginID: c.Params.Get("plugin_id"), VolumeID: c.Params.Get("volume_id"), QueryOptions: c.Query,
	})
	if err != nil {
		return nil, err
	}
	return out.Attachments, nil
}

// attachmentEnd detaches a volume that no specification names.
func attachmentEnd(c *endpoint.Call) (any, error) {
	return detach(c, &api.VolumeDetachRequest{PluginID: c.Params.Get("plugin_id"), ExternalID: c.Params.Get("external_id")})
}

func volumeExternal(c *endpoint.Call) (any, error) {
	plugin := c.Params.Get("plugin_id")
	if plugin == "" {
		return nil, fault.New(fault.Invalid, "plugin_id is missing: name the plugin whose volumes to list")
	}
	// The plugin does the paging.
	out, err := wire.VolumeListExternal.Call(c.Context(), c.Servers, &api.VolumeExternalListRequest{PluginID: plugin, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	answer := *out
	answer.Volumes = endpoint.List(out.Volumes)
	return providerView{&answer, readProvider(c)}, nil
}

// providerMeta is the metadata of provider responses, which have no index.
type providerMeta struct {
	Index       uint64
	LastContact time.Duration
	KnownLeader bool
}

// readProvider sets the headers of a read that the provider serves.
func readProvider(c *endpoint.Call) providerMeta {
	c.SetReadRows(api.QueryMeta{})
	return providerMeta{}
}

type providerView struct {
	*api.VolumeListExternalResponse
	providerMeta
}

type snapshotsView struct {
	*api.SnapshotListResponse
	providerMeta
}
