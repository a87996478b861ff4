package operator

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var keyringRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/.well-known/jwks.json", Serve: webKeys},
	{Method: "GET", Pattern: "/.well-known/openid-configuration", Serve: discovery},
	{Method: "GET", Pattern: "/v1/operator/keyring/keys", Serve: rootKeys},
	{Method: "PUT", Pattern: "/v1/operator/keyring/rotate", Serve: rotateRootKey},
	{Method: "DELETE", Pattern: "/v1/operator/keyring/key/:id", Serve: deleteRootKey},
}

// webKeysFor is how long others may use what they know of the public keys: a new key signs at once.
const webKeysFor = "public, max-age=60"

func webKeys(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.KeyringPublic, &c.Query)
	if err != nil {
		return nil, err
	}
	c.W.Header().Set("Cache-Control", webKeysFor)
	out.Keys = endpoint.List(out.Keys)
	return out, nil
}

func discovery(c *endpoint.Call) (any, error) {
	out, err := wire.KeyringDiscovery.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	c.W.Header().Set("Cache-Control", webKeysFor)
	return endpoint.Found(out.OIDCDiscovery, "OIDC Discovery endpoint disabled")
}

func rootKeys(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.KeyringList, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Keys, nil
}

func rotateRootKey(c *endpoint.Call) (any, error) {
	full, err := c.Bool("full")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid full value: %w", err)
	}
	at, err := c.Int("publish_time")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid publish_time value: %w", err)
	}
	return endpoint.Write(c, wire.KeyringRotate, &api.RootKeyRotateRequest{
		Algorithm: c.Params.Get("algo"), Full: full, PublishTime: at, WriteRequest: c.Writes(),
	})
}

func deleteRootKey(c *endpoint.Call) (any, error) {
	force, err := c.Bool("force")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid force value: %w", err)
	}
	return endpoint.WriteEmpty(c, wire.KeyringDelete, &api.RootKeyDeleteRequest{KeyID: c.ID, Force: force, WriteRequest: c.Writes()})
}
