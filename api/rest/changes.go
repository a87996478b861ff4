package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Difference selects the version that every version of a job is compared with: that of Tag, or Version;
// by default the previous version.
type Difference struct {
	Tag     string
	Version string
}

// JobHistory lists the versions of a job, newest first, with their differences.
func (c *Client) JobHistory(ctx context.Context, id string, to Difference) (*api.JobVersionsResponse, error) {
	q := Query{Params: url.Values{"diffs": {"true"}}}
	if to.Tag != "" {
		q = q.with("diff_tag", to.Tag)
	}
	if to.Version != "" {
		q = q.with("diff_version", to.Version)
	}
	out, _, err := get[*api.JobVersionsResponse](ctx, c, q, "job", id, "versions")
	return out, err
}

// RevertJob goes back to an older version of a job; enforce, when set, must be the current one.
func (c *Client) RevertJob(ctx context.Context, id string, version uint64, enforce *uint64) (*api.JobRegisterResponse, error) {
	body := &api.JobRevertRequest{JobID: id, JobVersion: version, EnforcePriorVersion: enforce}
	return put[api.JobRegisterResponse](ctx, c, nil, body, "job", id, "revert")
}

// Tag is a name for a version of a job; no Version means the newest.
type Tag struct {
	Name        string
	Version     *uint64
	Description string
}

// TagJob names a version of a job.
func (c *Client) TagJob(ctx context.Context, id string, t Tag) (*api.JobTagResponse, error) {
	body := &api.JobTagRequest{Description: t.Description, Latest: t.Version == nil}
	if t.Version != nil {
		body.Version = *t.Version
	}
	return put[api.JobTagResponse](ctx, c, nil, body, "job", id, "versions", t.Name, "tag")
}

// UntagJob takes the name of a version away.
func (c *Client) UntagJob(ctx context.Context, id, name string) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"job", id, "versions", name, "tag"}, nil, nil, nil)
	return err
}

// ScaleJob changes the count of a group.
func (c *Client) ScaleJob(ctx context.Context, id string, r *api.JobScaleRequest) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, nil, r, "job", id, "scale")
}

// JobScale reads what scaling a job looks like.
func (c *Client) JobScale(ctx context.Context, id string) (*api.JobScaleStatus, error) {
	out, _, err := get[*api.JobScaleStatus](ctx, c, Query{}, "job", id, "scale")
	return out, err
}

// DispatchJob runs an instance of a parameterized job. The same idempotency token twice runs one.
func (c *Client) DispatchJob(ctx context.Context, id string, r *api.JobDispatchRequest) (*api.JobDispatchResponse, error) {
	v := url.Values{}
	if r.IdempotencyToken != "" {
		v.Set("idempotency_token", r.IdempotencyToken)
	}
	return put[api.JobDispatchResponse](ctx, c, v, r, "job", id, "dispatch")
}

// ForcePeriodicJob launches a periodic job out of turn.
func (c *Client) ForcePeriodicJob(ctx context.Context, id string) (*api.PeriodicForceResponse, error) {
	return put[api.PeriodicForceResponse](ctx, c, nil, nil, "job", id, "periodic", "force")
}

// ScalingPolicies lists scaling policies of a job and a type; empty means any.
func (c *Client) ScalingPolicies(ctx context.Context, job, kind string, q Query) ([]*api.ScalingPolicy, Meta, error) {
	if job != "" {
		q = q.with("job", job)
	}
	if kind != "" {
		q = q.with("type", kind)
	}
	return get[[]*api.ScalingPolicy](ctx, c, q, "scaling", "policies")
}

// ScalingPolicy reads one scaling policy.
func (c *Client) ScalingPolicy(ctx context.Context, id string) (*api.ScalingPolicy, error) {
	out, _, err := get[*api.ScalingPolicy](ctx, c, Query{}, "scaling", "policy", id)
	return out, err
}

// DeleteEvals deletes evaluations by id or by a filter, and returns how many.
func (c *Client) DeleteEvals(ctx context.Context, ids []string, filter string) (int, error) {
	var out api.EvalDeleteResponse
	_, err := c.do(ctx, http.MethodDelete, []string{"evaluations"}, nil, &api.EvalDeleteRequest{EvalIDs: ids, Filter: filter}, &out)
	return out.Count, err
}

// CountEvals counts evaluations.
func (c *Client) CountEvals(ctx context.Context, q Query) (int, error) {
	out, _, err := get[api.EvalCountResponse](ctx, c, q, "evaluations", "count")
	return out.Count, err
}
