package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var keyringRoutes = []route{
	{method: "GET", pattern: "/.well-known/jwks.json", serve: webKeys},
	{method: "GET", pattern: "/v1/operator/keyring/keys", serve: rootKeys},
	{method: "PUT", pattern: "/v1/operator/keyring/rotate", serve: rotateRootKey},
	{method: "DELETE", pattern: "/v1/operator/keyring/key/:id", serve: deleteRootKey},
}

// webKeysFor is how long others may use what they know of the public keys: a new key signs at once.
const webKeysFor = "public, max-age=60"

func webKeys(c *call) (any, error) {
	q := c.reads()
	out, err := wire.KeyringPublic.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	c.w.Header().Set("Cache-Control", webKeysFor)
	out.Keys = list(out.Keys)
	return out, nil
}

func rootKeys(c *call) (any, error) {
	q := c.reads()
	out, err := wire.KeyringList.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return list(out.Keys), nil
}

func rotateRootKey(c *call) (any, error) {
	full, err := boolean(c.params, "full")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid full value: %w", err)
	}
	at, err := number(c.params, "publish_time")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid publish_time value: %w", err)
	}
	out, err := wire.KeyringRotate.Call(c.ctx(), c.Servers, &api.RootKeyRotateRequest{
		Algorithm: c.params.Get("algo"), Full: full, PublishTime: at, WriteRequest: c.writes(),
	})
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}

func deleteRootKey(c *call) (any, error) {
	force, err := boolean(c.params, "force")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid force value: %w", err)
	}
	return emptyWrite(c)(wire.KeyringDelete.Call(c.ctx(), c.Servers, &api.RootKeyDeleteRequest{KeyID: c.id, Force: force, WriteRequest: c.writes()}))
}
