package rest

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// Services lists the services of namespaces.
func (c *Client) Services(ctx context.Context, q Query) ([]*api.ServiceNamespace, error) {
	out, _, err := get[[]*api.ServiceNamespace](ctx, c, q, "services")
	return out, err
}

// Service lists the instances of a service.
func (c *Client) Service(ctx context.Context, name string, q Query) ([]*api.ServiceRegistration, Meta, error) {
	return get[[]*api.ServiceRegistration](ctx, c, q, "service", name)
}

// DeleteService deletes one instance of a service.
func (c *Client) DeleteService(ctx context.Context, name, id string) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"service", name, id}, nil, nil, nil)
	return err
}
