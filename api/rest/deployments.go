package rest

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

// Deployments lists deployments.
func (c *Client) Deployments(ctx context.Context, q Query) ([]*api.Deployment, Meta, error) {
	return get[[]*api.Deployment](ctx, c, q, "deployments")
}

// Deployment reads one deployment.
func (c *Client) Deployment(ctx context.Context, id string, q Query) (*api.Deployment, Meta, error) {
	return get[*api.Deployment](ctx, c, q, "deployment", id)
}

// DeploymentAllocations lists the allocations of a deployment.
func (c *Client) DeploymentAllocations(ctx context.Context, id string, q Query) ([]*api.AllocStub, Meta, error) {
	return get[[]*api.AllocStub](ctx, c, q, "deployment", "allocations", id)
}

// FailDeployment gives a deployment up.
func (c *Client) FailDeployment(ctx context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	return put[api.DeploymentUpdateResponse](ctx, c, nil, nil, "deployment", "fail", id)
}

// PauseDeployment pauses a deployment, or lets it go on.
func (c *Client) PauseDeployment(ctx context.Context, id string, pause bool) (*api.DeploymentUpdateResponse, error) {
	return put[api.DeploymentUpdateResponse](ctx, c, nil, &api.DeploymentPauseRequest{DeploymentID: id, Pause: pause}, "deployment", "pause", id)
}

// PromoteDeployment promotes the canaries of groups; of all when none is named.
func (c *Client) PromoteDeployment(ctx context.Context, id string, groups ...string) (*api.DeploymentUpdateResponse, error) {
	body := &api.DeploymentPromoteRequest{DeploymentID: id, All: len(groups) == 0, Groups: groups}
	return put[api.DeploymentUpdateResponse](ctx, c, nil, body, "deployment", "promote", id)
}

// UnblockDeployment lets a blocked deployment end.
func (c *Client) UnblockDeployment(ctx context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	return put[api.DeploymentUpdateResponse](ctx, c, nil, &api.DeploymentWriteRequest{DeploymentID: id}, "deployment", "unblock", id)
}
