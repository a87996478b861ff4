package fingerprint

import (
	"context"
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/secrets"
)

func probeSecrets(ctx context.Context, c *Config, n *api.Node) error {
	maps.Copy(n.Attributes, secrets.Fingerprint(ctx, c.SecretsDir, func(provider string, err error) {
		c.Log.Warn("a secret provider is not used", "dir", c.SecretsDir, "provider", provider, "error", err)
	}))
	return nil
}
