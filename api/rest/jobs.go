package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, q Query) ([]*api.JobStub, Meta, error) {
	return get[[]*api.JobStub](ctx, c, q, "jobs")
}

// Job reads one job.
func (c *Client) Job(ctx context.Context, id string, q Query) (*api.Job, Meta, error) {
	return get[*api.Job](ctx, c, q, "job", id)
}

// RegisterJob registers a job.
func (c *Client) RegisterJob(ctx context.Context, r *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, inJob(r.Job), r, "jobs")
}

// inJob names the job's own namespace, when it has one.
func inJob(j *api.Job) url.Values {
	v := url.Values{}
	if j.Namespace != "" {
		v.Set("namespace", j.Namespace)
	}
	if j.Region != "" {
		v.Set("region", j.Region)
	}
	return v
}

// PlanJob asks what registering a job would do.
func (c *Client) PlanJob(ctx context.Context, r *api.JobPlanRequest) (*api.JobPlanResponse, error) {
	return put[api.JobPlanResponse](ctx, c, inJob(r.Job), r, "job", r.Job.ID, "plan")
}

// ValidateJob asks whether a job is valid.
func (c *Client) ValidateJob(ctx context.Context, j *api.Job) (*api.JobValidateResponse, error) {
	return put[api.JobValidateResponse](ctx, c, inJob(j), &api.JobValidateRequest{Job: j}, "validate", "job")
}

// StopOptions are the options of stopping a job.
type StopOptions struct {
	Purge           bool
	NoShutdownDelay bool
	// Force stops a job also where volumes need a CSI plugin of it.
	Force        bool
	EvalPriority int
}

// StopJob stops a job, or forgets it when it is purged.
func (c *Client) StopJob(ctx context.Context, id string, o StopOptions) (*api.JobRegisterResponse, error) {
	v := url.Values{"purge": {strconv.FormatBool(o.Purge)}, "no_shutdown_delay": {strconv.FormatBool(o.NoShutdownDelay)}}
	if o.Force {
		v.Set("force", "true")
	}
	if o.EvalPriority != 0 {
		v.Set("eval_priority", strconv.Itoa(o.EvalPriority))
	}
	var out api.JobRegisterResponse
	_, err := c.do(ctx, http.MethodDelete, []string{"job", id}, v, nil, &out)
	return &out, err
}

// EvaluateJob asks for a new evaluation of a job.
func (c *Client) EvaluateJob(ctx context.Context, id string, o api.EvalOptions) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, nil, &api.JobEvaluateRequest{JobID: id, EvalOptions: o}, "job", id, "evaluate")
}

// JobVersions lists the versions of a job, newest first, with differences on request.
func (c *Client) JobVersions(ctx context.Context, id string, diffs bool) (*api.JobVersionsResponse, error) {
	out, _, err := get[*api.JobVersionsResponse](ctx, c, Query{Params: url.Values{"diffs": {strconv.FormatBool(diffs)}}}, "job", id, "versions")
	return out, err
}

// JobSubmission reads the source of one version of a job.
func (c *Client) JobSubmission(ctx context.Context, id string, version uint64) (*api.JobSubmission, error) {
	q := Query{Params: url.Values{"version": {strconv.FormatUint(version, 10)}}}
	out, _, err := get[*api.JobSubmission](ctx, c, q, "job", id, "submission")
	return out, err
}

// JobSummary counts the allocations of a job.
func (c *Client) JobSummary(ctx context.Context, id string, q Query) (*api.JobSummary, Meta, error) {
	return get[*api.JobSummary](ctx, c, q, "job", id, "summary")
}

// JobAllocations lists the allocations of a job; all includes those of earlier incarnations.
func (c *Client) JobAllocations(ctx context.Context, id string, all bool, q Query) ([]*api.AllocStub, Meta, error) {
	return get[[]*api.AllocStub](ctx, c, q.with("all", strconv.FormatBool(all)), "job", id, "allocations")
}

// JobEvaluations lists the evaluations of a job.
func (c *Client) JobEvaluations(ctx context.Context, id string, q Query) ([]*api.Evaluation, Meta, error) {
	return get[[]*api.Evaluation](ctx, c, q, "job", id, "evaluations")
}

// JobDeployments lists the deployments of a job.
func (c *Client) JobDeployments(ctx context.Context, id string, q Query) ([]*api.Deployment, Meta, error) {
	return get[[]*api.Deployment](ctx, c, q, "job", id, "deployments")
}

// JobDeployment reads the latest deployment of a job; nil when there is none.
func (c *Client) JobDeployment(ctx context.Context, id string) (*api.Deployment, error) {
	var out *api.Deployment
	_, err := c.do(ctx, http.MethodGet, []string{"job", id, "deployment"}, nil, nil, nullable{&out})
	return out, err
}

// with adds a parameter to a query.
func (q Query) with(key, value string) Query {
	v := url.Values{}
	for k, list := range q.Params {
		v[k] = list
	}
	v.Set(key, value)
	q.Params = v
	return q
}

// JobActions lists the actions of a job.
func (c *Client) JobActions(ctx context.Context, id string) ([]*api.JobAction, error) {
	out, _, err := get[[]*api.JobAction](ctx, c, Query{}, "job", id, "actions")
	return out, err
}
