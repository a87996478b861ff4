package httpapi

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/jobspec"
)

// jobOf decodes a body with a job and settles region and namespace: the query's, else the
// wrapper's, else the job's, else the default.
func jobOf(c *call) (*jobspec.Request, api.WriteRequest, error) {
	b, w, err := jobIn(c)
	switch {
	case err != nil:
		return nil, w, err
	case b.Job.ID == "":
		return nil, w, fault.New(fault.Invalid, "Job ID hasn't been provided")
	case c.id != "" && b.Job.ID != c.id:
		return nil, w, fault.New(fault.Invalid, "Job ID does not match name: the path says %q, the job %q", c.id, b.Job.ID)
	}
	return b, w, nil
}

// jobIn is the job in a body, whatever its ID.
func jobIn(c *call) (*jobspec.Request, api.WriteRequest, error) {
	w := c.writes()
	data, err := c.bytes(jobBytes)
	if err != nil {
		return nil, w, err
	}
	if len(data) == 0 {
		return nil, w, errEmpty
	}
	var b *jobspec.Request
	if err := wire.InLongTurn(c.ctx(), func() (err error) { b, err = jobspec.DecodeRequest(data); return err }); err != nil {
		return nil, w, err
	}
	j := b.Job
	if j == nil {
		return nil, w, fault.New(fault.Invalid, "Job must be specified")
	}
	j.Namespace = cmp.Or(c.params.Get("namespace"), b.Namespace, j.Namespace, api.DefaultNamespace)
	if home := cmp.Or(c.Region, api.GlobalRegion); j.Region == api.GlobalRegion && home != api.GlobalRegion {
		j.Region = home // what parsing fills in is not what the user said
	}
	j.Region = cmp.Or(c.params.Get("region"), b.Region, j.Region, c.Region, api.GlobalRegion)
	w.Namespace, w.Region = j.Namespace, j.Region
	return b, w, nil
}

func jobRegister(c *call) (any, error) {
	b, w, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	return jobWrote(c)(wire.JobRegister.Call(c.ctx(), c.Servers, &api.JobRegisterRequest{
		Job: b.Job, Submission: b.Submission, EnforceIndex: b.EnforceIndex, JobModifyIndex: b.JobModifyIndex,
		PreserveCounts: b.PreserveCounts, PreserveResources: b.PreserveResources,
		PolicyOverride: b.PolicyOverride, EvalPriority: b.EvalPriority, WriteRequest: w,
	}))
}

func jobWrote(c *call) func(*api.JobRegisterResponse, error) (any, error) {
	return func(out *api.JobRegisterResponse, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.wrote(out.WriteMeta)
		return out, nil
	}
}

func jobPlan(c *call) (any, error) {
	b, w, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.JobPlan.Call(c.ctx(), c.Servers, &api.JobPlanRequest{Job: b.Job, Diff: b.Diff, PolicyOverride: b.PolicyOverride, WriteRequest: w})
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return viewPlan(out), nil
}

func jobValidate(c *call) (any, error) {
	b, w, err := jobIn(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.JobValidate.Call(c.ctx(), c.Servers, &api.JobValidateRequest{Job: b.Job, WriteRequest: w})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func jobDeregister(c *call) (any, error) {
	purge, err := boolean(c.params, "purge")
	if err != nil {
		return nil, err
	}
	noDelay, err := boolean(c.params, "no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	force, err := boolean(c.params, "force")
	if err != nil {
		return nil, err
	}
	// Jobs of several regions are refused at registration: to stop the job in all of them is to stop it here.
	if _, err := boolean(c.params, "global"); err != nil {
		return nil, err
	}
	priority, err := number(c.params, "eval_priority")
	if err != nil {
		return nil, err
	}
	return jobWrote(c)(wire.JobDeregister.Call(c.ctx(), c.Servers, &api.JobDeregisterRequest{
		JobID: c.id, Purge: purge, EvalPriority: int(priority), NoShutdownDelay: noDelay, Force: force, WriteRequest: c.writes(),
	}))
}

func jobEvaluate(c *call) (any, error) {
	var body struct {
		JobID       string
		EvalOptions api.EvalOptions
	}
	data, err := c.body(bodyBytes)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := c.unmarshal(data, &body); err != nil {
			return nil, err
		}
		if body.JobID == "" {
			return nil, fault.New(fault.Invalid, "Job ID must be specified")
		}
	}
	if body.JobID != "" && body.JobID != c.id {
		return nil, fault.New(fault.Invalid, "JobID not same as job name: the path says %q, the body %q", c.id, body.JobID)
	}
	return jobWrote(c)(wire.JobEvaluate.Call(c.ctx(), c.Servers,
		&api.JobEvaluateRequest{JobID: c.id, EvalOptions: body.EvalOptions, WriteRequest: c.writes()}))
}

func jobParse(c *call) (any, error) {
	var b api.JobsParseRequest
	if err := c.decode(jobBytes, &b); err != nil {
		return nil, err
	}
	if b.JobHCL == "" {
		return nil, fault.New(fault.Invalid, "Job spec is empty")
	}
	j, err := c.parses.parseJob(c.ctx(), b)
	if err != nil {
		return nil, err
	}
	return j, nil
}
