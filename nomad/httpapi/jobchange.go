package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var jobChangeRoutes = []route{
	{method: "PUT", pattern: "/v1/job/:id/revert", serve: jobRevert},
	{method: "PUT", pattern: "/v1/job/:id/stable", serve: jobStable},
	{method: "PUT", pattern: "/v1/job/:id/versions/:tag/tag", serve: jobTag},
	{method: "DELETE", pattern: "/v1/job/:id/versions/:tag/tag", serve: jobUntag},
	{method: "PUT", pattern: "/v1/job/:id/dispatch", serve: jobDispatch},
	{method: "PUT", pattern: "/v1/job/:id/dispatch/payload", serve: jobDispatchPayload},
	{method: "PUT", pattern: "/v1/job/:id/periodic/force", serve: jobPeriodicForce},
}

// sameJob compares the job of a body, which must be named, with that of the path.
func (c *call) sameJob(id string) error {
	if id == "" {
		return fault.New(fault.Invalid, "JobID must be specified")
	}
	if id != c.id {
		return fault.New(fault.Invalid, "Job ID does not match: the path says %q, the body %q", c.id, id)
	}
	return nil
}

func jobRevert(c *call) (any, error) {
	var req api.JobRevertRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameJob(req.JobID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	out, err := wire.JobRevert.Call(c.ctx(), c.Servers, &req)
	if err != nil {
		return nil, err
	}
	c.read(api.QueryMeta{Index: out.Index})
	return out, nil
}

func jobStable(c *call) (any, error) {
	var req api.JobStabilityRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameJob(req.JobID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	out, err := wire.JobStable.Call(c.ctx(), c.Servers, &req)
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}

func jobTag(c *call) (any, error) {
	var body struct {
		Version     uint64
		Latest      bool
		Description string
	}
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	if body.Latest && body.Version != 0 {
		return nil, fault.New(fault.Invalid, "Version and Latest cannot both be given")
	}
	return tagged(wire.JobTag.Call(c.ctx(), c.Servers, &api.JobTagRequest{
		JobID: c.id, Name: c.tag, Version: body.Version, Latest: body.Latest, Description: body.Description, WriteRequest: c.writes(),
	}))
}

func jobUntag(c *call) (any, error) {
	return tagged(wire.JobTag.Call(c.ctx(), c.Servers, &api.JobTagRequest{JobID: c.id, Name: c.tag, Unset: true, WriteRequest: c.writes()}))
}

func tagged(out *api.JobTagResponse, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

func jobDispatch(c *call) (any, error) {
	var req api.JobDispatchRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != c.id {
		return nil, fault.New(fault.Invalid, "Job ID does not match: the path says %q, the body %q", c.id, req.JobID)
	}
	return dispatch(c, &req)
}

// jobDispatchPayload takes the whole body, whatever it is, for the payload.
func jobDispatchPayload(c *call) (any, error) {
	payload, err := c.bytes(bodyBytes)
	if err != nil {
		return nil, err
	}
	return dispatch(c, &api.JobDispatchRequest{Payload: payload})
}

func dispatch(c *call, req *api.JobDispatchRequest) (any, error) {
	req.JobID, req.WriteRequest = c.id, c.writes()
	req.IdempotencyToken = req.WriteRequest.IdempotencyToken
	out, err := wire.JobDispatch.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}

func jobPeriodicForce(c *call) (any, error) {
	q := c.reads()
	out, err := wire.JobPeriodicForce.Call(c.ctx(), c.Servers, &api.JobRequest{JobID: c.id, QueryOptions: q})
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return out, nil
}
