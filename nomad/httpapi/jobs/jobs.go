package jobs

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// Routes are the endpoints of jobs and of scaling policies.
func Routes() []endpoint.Route {
	p := newParses()
	return slices.Concat(jobRoutes, jobChangeRoutes, scalingRoutes, []endpoint.Route{
		{Method: "PUT", Pattern: "/v1/jobs/parse", Serve: p.serve, Right: api.Right{On: api.OnNamespace, Any: []string{"parse-job", "submit-job"}}},
	})
}

var jobRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/jobs", Serve: jobList},
	{Method: "PUT", Pattern: "/v1/jobs", Serve: jobRegister},
	{Method: "PUT", Pattern: "/v1/validate/job", Serve: jobValidate},
	{Method: "GET", Pattern: "/v1/jobs/statuses", Serve: jobStatuses},
	{Method: "PUT", Pattern: "/v1/jobs/statuses", Serve: jobStatusesOf},
	{Method: "GET", Pattern: "/v1/job/:id", Serve: jobGet},
	{Method: "PUT", Pattern: "/v1/job/:id", Serve: jobRegister},
	{Method: "DELETE", Pattern: "/v1/job/:id", Serve: jobDeregister},
	{Method: "PUT", Pattern: "/v1/job/:id/plan", Serve: jobPlan},
	{Method: "PUT", Pattern: "/v1/job/:id/evaluate", Serve: jobEvaluate},
	{Method: "GET", Pattern: "/v1/job/:id/versions", Serve: jobVersions},
	{Method: "GET", Pattern: "/v1/job/:id/submission", Serve: jobSubmission},
	{Method: "GET", Pattern: "/v1/job/:id/summary", Serve: jobSummary},
	{Method: "GET", Pattern: "/v1/job/:id/allocations", Serve: jobAllocations},
	{Method: "GET", Pattern: "/v1/job/:id/evaluations", Serve: jobEvaluations},
	{Method: "GET", Pattern: "/v1/job/:id/deployments", Serve: jobDeployments},
	{Method: "GET", Pattern: "/v1/job/:id/deployment", Serve: jobDeployment},
	{Method: "GET", Pattern: "/v1/job/:id/actions", Serve: jobActions},
	{Method: "GET", Pattern: "/v1/node/pool/:id/jobs", Serve: poolJobs},
}

func jobList(c *endpoint.Call) (any, error) {
	return jobsOf(c, "")
}

// jobsOf lists jobs, of one node pool when it is named.
func jobsOf(c *endpoint.Call, pool string) (any, error) {
	meta, err := c.Bool("meta")
	if err != nil {
		return nil, err
	}
	out, err := endpoint.ReadRows(c, wire.JobList, &api.JobListRequest{NodePool: pool, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Jobs, func(j *api.JobStub) any {
		shown := *j
		if !meta {
			shown.Meta = nil
		}
		return jobView{JobStub: &shown}
	}), nil
}

// jobView is a row of the list of jobs; this version has no jobs in several regions.
type jobView struct {
	*api.JobStub
	Multiregion *api.Multiregion
}

// requestOf is the request for the job of the path.
func requestOf(c *endpoint.Call) (*api.JobRequest, error) {
	all, err := c.Bool("all")
	if err != nil {
		return nil, err
	}
	version, err := c.Int("version")
	if err != nil {
		return nil, err
	}
	if version < 0 {
		return nil, fault.New(fault.Invalid, "invalid version value %d: want a whole number from 0", version)
	}
	return &api.JobRequest{JobID: c.ID, All: all, Version: uint64(version), QueryOptions: c.Query}, nil
}

// ofJob returns the result of a method for the job of the path.
func ofJob[R any, A endpoint.Answer[R]](c *endpoint.Call, m wire.Method[api.JobRequest, R]) (*R, error) {
	req, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	return endpoint.Read[api.JobRequest, R, A](c, m, req)
}

// rowsOfJob is ofJob for lists; see [endpoint.ReadRows].
func rowsOfJob[R any, A endpoint.Answer[R]](c *endpoint.Call, m wire.Method[api.JobRequest, R]) (*R, error) {
	req, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	return endpoint.ReadRows[api.JobRequest, R, A](c, m, req)
}

func jobGet(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobGet)
	if err != nil {
		return nil, err
	}
	if out.Job == nil {
		return nil, endpoint.Missing("job not found")
	}
	return view.Job(unpacked(out.Job)), nil
}

// unpacked is a job with its payload as it was dispatched; it is kept compressed.
func unpacked(j *api.Job) *api.Job {
	if len(j.Payload) == 0 {
		return j
	}
	if n, err := snappy.DecodedLen(j.Payload); err != nil || n > endpoint.BodyMax {
		return j
	}
	plain, err := snappy.Decode(nil, j.Payload)
	if err != nil {
		return j
	}
	whole := *j
	whole.Payload = plain
	return &whole
}

func jobStatuses(c *endpoint.Call) (any, error) {
	children, err := c.Bool("include_children")
	if err != nil {
		return nil, err
	}
	return statuses(c, &api.JobStatusesRequest{IncludeChildren: children})
}

// jobStatusesOf is for the jobs that the body names.
func jobStatusesOf(c *endpoint.Call) (any, error) {
	req := &api.JobStatusesRequest{}
	if err := c.Decode(endpoint.BodyMax, req); err != nil {
		return nil, err
	}
	if len(req.Jobs) == 0 {
		return nil, fault.New(fault.Invalid, "no jobs in request")
	}
	for i := range req.Jobs {
		req.Jobs[i].Namespace = cmp.Or(req.Jobs[i].Namespace, c.Query.Namespace)
	}
	return statuses(c, req)
}

func statuses(c *endpoint.Call, req *api.JobStatusesRequest) (any, error) {
	req.QueryOptions = c.Query
	out, err := endpoint.ReadRows(c, wire.JobStatuses, req)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Jobs, func(j *api.JobStatusesJob) any { return j }), nil
}

func jobVersions(c *endpoint.Call) (any, error) {
	diffs, err := c.Bool("diffs")
	if err != nil {
		return nil, err
	}
	req := &api.JobVersionsRequest{JobID: c.ID, Diffs: diffs, DiffTag: c.Params.Get("diff_tag"), QueryOptions: c.Query}
	if text := c.Params.Get("diff_version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fault.New(fault.Invalid, "invalid diff_version value %q: want a whole number from 0", text)
		}
		req.DiffVersion = &n
	}
	if req.DiffTag != "" && req.DiffVersion != nil {
		return nil, fault.New(fault.Invalid, "diff_tag and diff_version cannot both be given")
	}
	out, err := endpoint.Read(c, wire.JobVersions, req)
	if err != nil {
		return nil, err
	}
	if len(out.Versions) == 0 {
		return nil, endpoint.Missing("job versions not found")
	}
	for i, j := range out.Versions {
		out.Versions[i] = view.Job(j)
	}
	return out, nil
}

func jobSubmission(c *endpoint.Call) (any, error) {
	req, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	out, err := endpoint.Read(c, wire.JobSubmission, req)
	if err != nil {
		return nil, err
	}
	if out.Submission == nil {
		return nil, endpoint.Missing("job source not found")
	}
	return submissionView{out.Submission, c.Query.Namespace, c.ID, req.Version, out.JobModifyIndex}, nil
}

func jobSummary(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobSummary)
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.JobSummary, "job not found")
}

func jobAllocations(c *endpoint.Call) (any, error) {
	out, err := rowsOfJob(c, wire.JobAllocations)
	if err != nil {
		return nil, err
	}
	return out.Allocs, nil
}

func jobEvaluations(c *endpoint.Call) (any, error) {
	out, err := rowsOfJob(c, wire.JobEvaluations)
	if err != nil {
		return nil, err
	}
	return out.Evaluations, nil
}

func jobDeployments(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobDeployments)
	if err != nil {
		return nil, err
	}
	return out.Deployments, nil
}

// jobDeployment returns the latest deployment, and null when there is none.
func jobDeployment(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobDeployment)
	if err != nil {
		return nil, err
	}
	return out.Deployment, nil
}

func poolJobs(c *endpoint.Call) (any, error) {
	if c.Query.Prefix != "" {
		return nil, fault.New(fault.Invalid, "prefix argument not allowed")
	}
	return jobsOf(c, c.ID)
}

// jobActions is empty for every job: those with actions are not registered.
func jobActions(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobGet)
	if err != nil {
		return nil, err
	}
	if out.Job == nil {
		return nil, endpoint.Missing("job not found")
	}
	actions := []api.JobAction{}
	for _, g := range out.Job.TaskGroups {
		for _, t := range g.Tasks {
			for _, a := range t.Actions {
				actions = append(actions, api.JobAction{Action: *a, TaskName: t.Name, TaskGroupName: g.Name})
			}
		}
	}
	return actions, nil
}

// planView is the response of a plan: absent parts are null.
type planView struct {
	*api.JobPlanResponse
	FailedTGAllocs     map[string]*api.AllocationMetric
	NextPeriodicLaunch *time.Time
}

func viewPlan(p *api.JobPlanResponse) planView {
	v := planView{JobPlanResponse: p}
	if len(p.FailedTGAllocs) > 0 {
		v.FailedTGAllocs = p.FailedTGAllocs
	}
	if !p.NextPeriodicLaunch.IsZero() {
		v.NextPeriodicLaunch = &p.NextPeriodicLaunch
	}
	return v
}

// submissionView is the source of a job with the version that it is of.
type submissionView struct {
	*api.JobSubmission
	Namespace, JobID        string
	Version, JobModifyIndex uint64
}
