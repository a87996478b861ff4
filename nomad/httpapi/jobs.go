package httpapi

import (
	"strconv"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var jobRoutes = []route{
	{method: "GET", pattern: "/v1/jobs", serve: jobList},
	{method: "PUT", pattern: "/v1/jobs", serve: jobRegister},
	{method: "PUT", pattern: "/v1/jobs/parse", serve: jobParse},
	{method: "PUT", pattern: "/v1/validate/job", serve: jobValidate},
	{method: "GET", pattern: "/v1/job/:id", serve: jobGet},
	{method: "PUT", pattern: "/v1/job/:id", serve: jobRegister},
	{method: "DELETE", pattern: "/v1/job/:id", serve: jobDeregister},
	{method: "PUT", pattern: "/v1/job/:id/plan", serve: jobPlan},
	{method: "PUT", pattern: "/v1/job/:id/evaluate", serve: jobEvaluate},
	{method: "GET", pattern: "/v1/job/:id/versions", serve: jobVersions},
	{method: "GET", pattern: "/v1/job/:id/submission", serve: jobSubmission},
	{method: "GET", pattern: "/v1/job/:id/summary", serve: jobSummary},
	{method: "GET", pattern: "/v1/job/:id/allocations", serve: jobAllocations},
	{method: "GET", pattern: "/v1/job/:id/evaluations", serve: jobEvaluations},
	{method: "GET", pattern: "/v1/job/:id/deployments", serve: jobDeployments},
	{method: "GET", pattern: "/v1/job/:id/deployment", serve: jobDeployment},
}

func jobList(c *call) (any, error) { return jobsWhere(c, func(*api.JobStub) bool { return true }) }

func jobsWhere(c *call, keep func(*api.JobStub) bool) (any, error) {
	meta, err := boolean(c.params, "meta")
	if err != nil {
		return nil, err
	}
	out, err := wire.JobList.Call(c.ctx(), c.Servers, &api.JobListRequest{QueryOptions: c.filters()})
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	rows, err := paged(c, kept(out.Jobs, keep), byPath(func(j *api.JobStub) (string, string) { return j.Namespace, j.ID }))
	if err != nil {
		return nil, err
	}
	return views[api.JobStub]{rows, func(j *api.JobStub) any {
		shown := *j
		if !meta {
			shown.Meta = nil
		}
		return jobView{JobStub: &shown}
	}}, nil
}

// jobView is a row of the list of jobs; this version has no jobs in several regions.
type jobView struct {
	*api.JobStub
	Multiregion *api.Multiregion
}

func (c *call) jobRequest() (*api.JobRequest, error) {
	all, err := boolean(c.params, "all")
	if err != nil {
		return nil, err
	}
	version, err := number(c.params, "version")
	if err != nil {
		return nil, err
	}
	if version < 0 {
		return nil, fault.New(fault.Invalid, "invalid version value %d: want a whole number from 0", version)
	}
	return &api.JobRequest{JobID: c.id, All: all, Version: uint64(version), QueryOptions: c.reads()}, nil
}

func jobGet(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobGet.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Job == nil {
		return nil, missing("job not found")
	}
	return viewJob(unpacked(out.Job)), nil
}

// unpacked is a job with its payload as it was dispatched; it is kept compressed.
func unpacked(j *api.Job) *api.Job {
	if len(j.Payload) == 0 {
		return j
	}
	if n, err := snappy.DecodedLen(j.Payload); err != nil || n > bodyBytes {
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

func jobVersions(c *call) (any, error) {
	diffs, err := boolean(c.params, "diffs")
	if err != nil {
		return nil, err
	}
	req := &api.JobVersionsRequest{JobID: c.id, Diffs: diffs, DiffTag: c.params.Get("diff_tag"), QueryOptions: c.reads()}
	if text := c.params.Get("diff_version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fault.New(fault.Invalid, "invalid diff_version value %q: want a whole number from 0", text)
		}
		req.DiffVersion = &n
	}
	if req.DiffTag != "" && req.DiffVersion != nil {
		return nil, fault.New(fault.Invalid, "diff_tag and diff_version cannot both be given")
	}
	out, err := wire.JobVersions.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if len(out.Versions) == 0 {
		return nil, missing("job versions not found")
	}
	for i, j := range out.Versions {
		out.Versions[i] = viewJob(j)
	}
	return out, nil
}

func jobSubmission(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobSubmission.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Submission == nil {
		return nil, missing("job source not found")
	}
	return submissionView{out.Submission, c.query.Namespace, c.id, req.Version, out.JobModifyIndex}, nil
}

func jobSummary(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobSummary.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.JobSummary == nil {
		return nil, missing("job not found")
	}
	return out.JobSummary, nil
}

func jobAllocations(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobAllocations.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	return list(out.Allocs), nil
}

func jobEvaluations(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobEvaluations.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	return list(out.Evaluations), nil
}

func jobDeployments(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobDeployments.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return list(out.Deployments), nil
}

// jobDeployment answers the latest deployment, and null when there is none.
func jobDeployment(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobDeployment.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return out.Deployment, nil
}
