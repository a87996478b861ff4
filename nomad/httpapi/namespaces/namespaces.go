package namespaces

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// Routes are the endpoints of namespaces.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/namespaces", Serve: namespaceList},
	{Method: "PUT", Pattern: "/v1/namespace", Serve: namespacePut},
	{Method: "GET", Pattern: "/v1/namespace/:id", Serve: namespaceGet},
	{Method: "PUT", Pattern: "/v1/namespace/:id", Serve: namespacePut},
	{Method: "DELETE", Pattern: "/v1/namespace/:id", Serve: namespaceDelete},
}

func namespaceList(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NamespaceList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Namespaces, viewNamespace), nil
}

func namespaceGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NamespaceGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Namespace == nil {
		return nil, endpoint.Missing("Namespace not found")
	}
	return viewNamespace(out.Namespace), nil
}

func namespacePut(c *endpoint.Call) (any, error) {
	var n api.Namespace
	if err := c.Decode(endpoint.BodyMax, &n); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != n.Name {
		return nil, fault.New(fault.Invalid, "Namespace name does not match request path")
	}
	if p := n.NodePoolConfiguration; p != nil && p.Allowed != nil && len(p.Allowed) == 0 && p.Denied == nil {
		return nil, fault.New(fault.Invalid, "node_pool_config of namespace %q: allowed is empty: name the node pools, or the default one to permit no other", n.Name)
	}
	return endpoint.WriteEmpty(c, wire.NamespaceUpsert, &api.NamespaceUpsertRequest{Spec: &n, WriteRequest: c.Writes()})
}

func namespaceDelete(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.NamespaceDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}

// namespaceView is a namespace with a hash of its content.
type namespaceView struct {
	*api.Namespace
	Hash string
}

func viewNamespace(n *api.Namespace) any {
	said := *n
	said.CreateIndex, said.ModifyIndex = 0, 0
	return namespaceView{n, view.Hash(said)}
}
