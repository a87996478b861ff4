package fingerprint

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

func probeNomad(_ context.Context, c *Config, n *api.Node) error {
	n.Attributes["nomad.version"] = api.Compatible
	n.Attributes["open_nomad.version"] = c.Version
	if c.Revision != "" {
		n.Attributes["nomad.revision"] = c.Revision
	}
	n.Attributes["nomad.service_discovery"] = "true"
	if c.AdvertiseAddress != "" {
		n.Attributes["unique.advertise.address"] = c.AdvertiseAddress
	}
	return nil
}
