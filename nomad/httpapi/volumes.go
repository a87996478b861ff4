package httpapi

import (
	"net"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/filter"
)

var volumeRoutes = []route{
	{method: "GET", pattern: "/v1/volumes", serve: volumeList},
	{method: "PUT", pattern: "/v1/volumes", serve: volumeRegister},
	{method: "GET", pattern: "/v1/volumes/external", serve: volumeExternal},
	{method: "GET", pattern: "/v1/volumes/attachments", serve: volumeAttachments},
	{method: "DELETE", pattern: "/v1/volumes/attachments", serve: attachmentEnd},
	{method: "GET", pattern: "/v1/volumes/snapshot", serve: snapshotList},
	{method: "PUT", pattern: "/v1/volumes/snapshot", serve: snapshotCreate},
	{method: "DELETE", pattern: "/v1/volumes/snapshot", serve: snapshotDelete},
	{method: "GET", pattern: "/v1/volume/csi/:id", serve: volumeGet},
	{method: "PUT", pattern: "/v1/volume/csi/:id", serve: volumeRegister},
	{method: "DELETE", pattern: "/v1/volume/csi/:id", serve: volumeDeregister},
	{method: "PUT", pattern: "/v1/volume/csi/:id/create", serve: volumeCreate},
	{method: "DELETE", pattern: "/v1/volume/csi/:id/delete", serve: volumeDelete},
	{method: "PUT", pattern: "/v1/volume/csi/:id/delete", serve: volumeDelete},
	{method: "DELETE", pattern: "/v1/volume/csi/:id/detach", serve: volumeDetach},
	{method: "PUT", pattern: "/v1/volume/csi/:id/detach", serve: volumeDetach},
}

func volumeList(c *call) (any, error) {
	switch kind := c.params.Get("type"); kind {
	case "":
		return []*api.VolumeStub{}, nil
	case api.VolumeTypeHost: // this version has none that are made while it runs
		c.readRows(api.QueryMeta{})
		_, err := filter.Rows(c.ctx(), []*api.VolumeStub{}, c.query.Filter, itself)
		return []*api.VolumeStub{}, err
	case api.VolumeTypeCSI:
	default:
		return nil, fault.New(fault.NotFound, "there are no volumes of type %q, only csi and host", kind)
	}
	out, err := wire.VolumeList.Call(c.ctx(), c.Servers, &api.VolumeListRequest{
		PluginID: c.params.Get("plugin_id"), NodeID: c.params.Get("node_id"), QueryOptions: c.reads(),
	})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Volumes, byPath(func(v *api.VolumeStub) (string, string) { return v.Namespace, v.ID }))
}

func volumeGet(c *call) (any, error) {
	out, err := wire.VolumeGet.Call(c.ctx(), c.Servers, &api.VolumeGetRequest{ID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Volume == nil {
		return nil, missing("volume not found")
	}
	return shown(out.Volume), nil
}

// shown is a volume as users see it: no secrets, and alloc ids without the allocations.
func shown(v *api.VolumeDetail) *api.VolumeDetail {
	if v == nil {
		return nil
	}
	d := *v
	d.VolumeSpec = *v.VolumeSpec.Redacted()
	d.ReadAllocs, d.WriteAllocs = onlyIDs(v.ReadAllocs), onlyIDs(v.WriteAllocs)
	d.Allocations = list(v.Allocations)
	return &d
}

func onlyIDs(allocs map[string]*api.Allocation) map[string]*api.Allocation {
	ids := make(map[string]*api.Allocation, len(allocs))
	for id := range allocs {
		ids[id] = nil
	}
	return ids
}

// specs decodes the volumes of a register or create. What the body says beyond a spec is ignored.
func specs(c *call) ([]*api.VolumeSpec, error) {
	var body struct{ Volumes []*api.VolumeSpec }
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	if len(body.Volumes) == 0 {
		return nil, fault.New(fault.Invalid, "Volumes of the request body is empty: name at least one volume")
	}
	for i, v := range body.Volumes {
		if v == nil || v.ID == "" {
			return nil, fault.New(fault.Invalid, "volume %d of the request body has no ID", i+1)
		}
		if c.id != "" && v.ID != c.id {
			return nil, fault.New(fault.Invalid, "volume id %q of the body is not %q of the path", v.ID, c.id)
		}
		if v.Namespace == "" {
			v.Namespace = c.query.Namespace
		}
	}
	return body.Volumes, nil
}

func volumeRegister(c *call) (any, error) {
	// A verb that there is not is no part of an id, whose slashes are escaped.
	if strings.Contains(c.id, "/") && strings.Contains(c.r.URL.EscapedPath(), c.id) {
		return nil, missing("resource not found: " + c.r.URL.Path)
	}
	v, err := specs(c)
	if err != nil {
		return nil, err
	}
	return volumesWrote(c)(wire.VolumeRegister.Call(c.ctx(), c.Servers, &api.VolumeRegisterRequest{Volumes: v, WriteRequest: c.writes()}))
}

func volumeCreate(c *call) (any, error) {
	v, err := specs(c)
	if err != nil {
		return nil, err
	}
	return volumesWrote(c)(wire.VolumeCreate.Call(c.ctx(), c.Servers, &api.VolumeCreateRequest{Volumes: v, WriteRequest: c.writes()}))
}

func volumesWrote(c *call) func(*api.VolumeWriteResponse, error) (any, error) {
	return func(out *api.VolumeWriteResponse, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.wrote(out.WriteMeta)
		answer := *out
		answer.Volumes = slices.Clone(list(out.Volumes))
		for i, v := range answer.Volumes {
			answer.Volumes[i] = shown(v)
		}
		return answer, nil
	}
}

func volumeDeregister(c *call) (any, error) {
	force, err := boolean(c.params, "force")
	if err != nil {
		return nil, err
	}
	return emptyWrite(c)(wire.VolumeDeregister.Call(c.ctx(), c.Servers,
		&api.VolumeDeregisterRequest{VolumeID: c.id, Force: force, WriteRequest: c.writes()}))
}

func volumeDelete(c *call) (any, error) {
	secrets, err := secretsOf(c.r.Header)
	if err != nil {
		return nil, err
	}
	return emptyWrite(c)(wire.VolumeDelete.Call(c.ctx(), c.Servers,
		&api.VolumeDeleteRequest{VolumeID: c.id, Secrets: secrets, WriteRequest: c.writes()}))
}

func volumeDetach(c *call) (any, error) {
	return detach(c, &api.VolumeDetachRequest{VolumeID: c.id})
}

// detach adds to the request what all ways to ask for it have in common. Who asks is known by address only.
func detach(c *call, r *api.VolumeDetachRequest) (any, error) {
	r.NodeID, r.Reason, r.WriteRequest = c.params.Get("node"), c.params.Get("reason"), c.writes()
	if r.NodeID == "" && r.Provider == "" {
		return nil, fault.New(fault.Invalid, "detach requires node ID")
	}
	force, err := boolean(c.params, "force")
	if err != nil {
		return nil, err
	}
	r.Force = force
	if host, _, err := net.SplitHostPort(c.r.RemoteAddr); err == nil {
		r.By = "from " + host
	}
	return emptyWrite(c)(wire.VolumeDetach.Call(c.ctx(), c.Servers, r))
}

func volumeAttachments(c *call) (any, error) {
	out, err := wire.VolumeAttachments.Call(c.ctx(), c.Servers, &api.VolumeAttachmentListRequest{
		NodeID: c.params.Get("node_id"), PluginID: c.params.Get("plugin_id"), VolumeID: c.params.Get("volume_id"), QueryOptions: c.reads(),
	})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Attachments, byName(func(a *api.AttachmentStub) string {
		return strings.Join([]string{a.NodeID, a.PluginID, a.ExternalID, a.AllocID}, " ")
	}))
}

// attachmentEnd detaches a volume that no specification names any more, or all that a driver has attached.
func attachmentEnd(c *call) (any, error) {
	return detach(c, &api.VolumeDetachRequest{PluginID: c.params.Get("plugin_id"), ExternalID: c.params.Get("external_id"), Provider: c.params.Get("driver")})
}

func volumeExternal(c *call) (any, error) {
	plugin := c.params.Get("plugin_id")
	if plugin == "" {
		return nil, fault.New(fault.Invalid, "plugin_id is missing: say whose volumes to list")
	}
	// The plugin does the paging.
	out, err := wire.VolumeListExternal.Call(c.ctx(), c.Servers, &api.VolumeExternalListRequest{PluginID: plugin, QueryOptions: c.query})
	if err != nil {
		return nil, err
	}
	answer := *out
	answer.Volumes = list(out.Volumes)
	return providerView{&answer, c.readProvider()}, nil
}
