package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var namespaceRoutes = []route{
	{method: "GET", pattern: "/v1/namespaces", serve: namespaceList},
	{method: "PUT", pattern: "/v1/namespace", serve: namespacePut},
	{method: "GET", pattern: "/v1/namespace/:id", serve: namespaceGet},
	{method: "PUT", pattern: "/v1/namespace/:id", serve: namespacePut},
	{method: "DELETE", pattern: "/v1/namespace/:id", serve: namespaceDelete},
}

func namespaceList(c *call) (any, error) {
	q := c.reads()
	out, err := wire.NamespaceList.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	rows, err := page(c, out.Namespaces, byName(func(n *api.Namespace) string { return n.Name }))
	return views[api.Namespace]{rows, viewNamespace}, err
}

func namespaceGet(c *call) (any, error) {
	out, err := wire.NamespaceGet.Call(c.ctx(), c.Servers, &api.NameRequest{Name: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Namespace == nil {
		return nil, missing("Namespace not found")
	}
	return viewNamespace(out.Namespace), nil
}

func namespacePut(c *call) (any, error) {
	var n api.Namespace
	if err := c.decode(bodyBytes, &n); err != nil {
		return nil, err
	}
	if c.id != "" && c.id != n.Name {
		return nil, fault.New(fault.Invalid, "Namespace name does not match request path")
	}
	return emptyWrite(c)(wire.NamespaceUpsert.Call(c.ctx(), c.Servers, &api.NamespaceUpsertRequest{Spec: &n, WriteRequest: c.writes()}))
}

func namespaceDelete(c *call) (any, error) {
	return emptyWrite(c)(wire.NamespaceDelete.Call(c.ctx(), c.Servers, &api.NameWriteRequest{Name: c.id, WriteRequest: c.writes()}))
}
