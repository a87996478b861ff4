package jobs

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// bodyMax bounds bodies that hold a job, in bytes.
const bodyMax = 16 << 20

// jobOf decodes a body with a job and settles region and namespace: the query's, else the
// wrapper's, else the job's, else the default.
func jobOf(c *endpoint.Call) (*jobspec.Request, api.WriteRequest, error) {
	b, w, err := jobIn(c)
	switch {
	case err != nil:
		return nil, w, err
	case b.Job.ID == "":
		return nil, w, fault.New(fault.Invalid, "Job ID hasn't been provided")
	case c.ID != "" && b.Job.ID != c.ID:
		return nil, w, fault.New(fault.Invalid, "Job ID does not match name: the path has %q, the job %q", c.ID, b.Job.ID)
	}
	return b, w, nil
}

// jobIn is the job in a body, whatever its ID.
func jobIn(c *endpoint.Call) (*jobspec.Request, api.WriteRequest, error) {
	w := c.Writes()
	data, err := c.Body(bodyMax)
	if err != nil {
		return nil, w, err
	}
	if len(data) == 0 {
		return nil, w, endpoint.ErrEmpty
	}
	var b *jobspec.Request
	if err := cpulimit.Long(c.Context(), func() (err error) { b, err = jobspec.DecodeRequest(data); return err }); err != nil {
		return nil, w, err
	}
	j := b.Job
	if j == nil {
		return nil, w, fault.New(fault.Invalid, "Job must be specified")
	}
	j.Namespace = cmp.Or(c.Params.Get("namespace"), b.Namespace, j.Namespace, api.DefaultNamespace)
	if home := cmp.Or(c.Region, api.GlobalRegion); j.Region == api.GlobalRegion && home != api.GlobalRegion {
		j.Region = home // what parsing fills in is not what the user said
	}
	j.Region = cmp.Or(c.Params.Get("region"), b.Region, j.Region, c.Region, api.GlobalRegion)
	w.Namespace, w.Region = j.Namespace, j.Region
	return b, w, nil
}

func jobRegister(c *endpoint.Call) (any, error) {
	b, w, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	return endpoint.Write(c, wire.JobRegister, &api.JobRegisterRequest{
		Job: b.Job, Submission: b.Submission, EnforceIndex: b.EnforceIndex, JobModifyIndex: b.JobModifyIndex,
		PreserveCounts: b.PreserveCounts, PreserveResources: b.PreserveResources,
		PolicyOverride: b.PolicyOverride, EvalPriority: b.EvalPriority, WriteRequest: w,
	})
}

func jobPlan(c *endpoint.Call) (any, error) {
	b, w, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.JobPlan.Call(c.Context(), c.Servers, &api.JobPlanRequest{Job: b.Job, Diff: b.Diff, PolicyOverride: b.PolicyOverride, WriteRequest: w})
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return viewPlan(out), nil
}

func jobValidate(c *endpoint.Call) (any, error) {
	b, w, err := jobIn(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.JobValidate.Call(c.Context(), c.Servers, &api.JobValidateRequest{Job: b.Job, WriteRequest: w})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func jobDeregister(c *endpoint.Call) (any, error) {
	purge, err := c.Bool("purge")
	if err != nil {
		return nil, err
	}
	noDelay, err := c.Bool("no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	// Jobs of several regions are refused at registration: to stop the job in all of them is to stop it here.
	if _, err := c.Bool("global"); err != nil {
		return nil, err
	}
	priority, err := c.Int("eval_priority")
	if err != nil {
		return nil, err
	}
	return endpoint.Write(c, wire.JobDeregister, &api.JobDeregisterRequest{
		JobID: c.ID, Purge: purge, EvalPriority: int(priority), NoShutdownDelay: noDelay, Force: force, WriteRequest: c.Writes(),
	})
}

func jobEvaluate(c *endpoint.Call) (any, error) {
	var body struct {
		JobID       string
		EvalOptions api.EvalOptions
	}
	data, err := c.Body(endpoint.BodyMax)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := c.Unmarshal(data, &body); err != nil {
			return nil, err
		}
		if body.JobID == "" {
			return nil, fault.New(fault.Invalid, "Job ID must be specified")
		}
	}
	if body.JobID != "" && body.JobID != c.ID {
		return nil, fault.New(fault.Invalid, "JobID not same as job name: the path has %q, the body %q", c.ID, body.JobID)
	}
	return endpoint.Write(c, wire.JobEvaluate, &api.JobEvaluateRequest{JobID: c.ID, EvalOptions: body.EvalOptions, WriteRequest: c.Writes()})
}
