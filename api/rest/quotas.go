package rest

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

// Quotas are the quotas by name. They are written with Put and no id.
func (c *Client) Quotas() Objects[api.QuotaSpec, api.QuotaSpec] {
	return objects[api.QuotaSpec, api.QuotaSpec](c, "quotas", "quota")
}

// QuotaUsage reads what the namespaces of a quota use.
func (c *Client) QuotaUsage(ctx context.Context, name string) (*api.QuotaUsage, error) {
	out, _, err := get[*api.QuotaUsage](ctx, c, Query{}, "quota", "usage", name)
	return out, err
}
