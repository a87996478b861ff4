package jobs

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var jobChangeRoutes = []endpoint.Route{
	{Method: "PUT", Pattern: "/v1/job/:id/revert", Serve: jobRevert},
	{Method: "PUT", Pattern: "/v1/job/:id/stable", Serve: jobStable},
	{Method: "PUT", Pattern: "/v1/job/:id/versions/:tag/tag", Serve: jobTag},
	{Method: "DELETE", Pattern: "/v1/job/:id/versions/:tag/tag", Serve: jobUntag},
	{Method: "PUT", Pattern: "/v1/job/:id/dispatch", Serve: jobDispatch},
	{Method: "PUT", Pattern: "/v1/job/:id/dispatch/payload", Serve: jobDispatchPayload},
	{Method: "PUT", Pattern: "/v1/job/:id/periodic/force", Serve: jobPeriodicForce},
}

// sameJob compares the job of a body, which must be named, with that of the path.
func sameJob(c *endpoint.Call, id string) error {
	if id == "" {
		return fault.New(fault.Invalid, "JobID must be specified")
	}
	if id != c.ID {
		return fault.New(fault.Invalid, "Job ID does not match: the path has %q, the body %q", c.ID, id)
	}
	return nil
}

func jobRevert(c *endpoint.Call) (any, error) {
	var req api.JobRevertRequest
	if err := c.Decode(endpoint.BodyMax, &req); err != nil {
		return nil, err
	}
	if err := sameJob(c, req.JobID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.Writes()
	out, err := wire.JobRevert.Call(c.Context(), c.Servers, &req)
	if err != nil {
		return nil, err
	}
	c.SetRead(api.QueryMeta{Index: out.Index})
	return out, nil
}

func jobStable(c *endpoint.Call) (any, error) {
	var req api.JobStabilityRequest
	if err := c.Decode(endpoint.BodyMax, &req); err != nil {
		return nil, err
	}
	if err := sameJob(c, req.JobID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.Writes()
	return endpoint.Write(c, wire.JobStable, &req)
}

func jobTag(c *endpoint.Call) (any, error) {
	var body struct {
		Version     uint64
		Latest      bool
		Description string
	}
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if body.Latest && body.Version != 0 {
		return nil, fault.New(fault.Invalid, "Version and Latest cannot both be given")
	}
	return tagged(wire.JobTag.Call(c.Context(), c.Servers, &api.JobTagRequest{
		JobID: c.ID, Name: c.Tag, Version: body.Version, Latest: body.Latest, Description: body.Description, WriteRequest: c.Writes(),
	}))
}

func jobUntag(c *endpoint.Call) (any, error) {
	return tagged(wire.JobTag.Call(c.Context(), c.Servers, &api.JobTagRequest{JobID: c.ID, Name: c.Tag, Unset: true, WriteRequest: c.Writes()}))
}

func tagged(out *api.JobTagResponse, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

func jobDispatch(c *endpoint.Call) (any, error) {
	var req api.JobDispatchRequest
	if err := c.Decode(endpoint.BodyMax, &req); err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != c.ID {
		return nil, fault.New(fault.Invalid, "Job ID does not match: the path has %q, the body %q", c.ID, req.JobID)
	}
	return dispatch(c, &req)
}

// jobDispatchPayload takes the whole body, whatever it is, for the payload.
func jobDispatchPayload(c *endpoint.Call) (any, error) {
	payload, err := c.Bytes(endpoint.BodyMax)
	if err != nil {
		return nil, err
	}
	return dispatch(c, &api.JobDispatchRequest{Payload: payload})
}

func dispatch(c *endpoint.Call, req *api.JobDispatchRequest) (any, error) {
	req.JobID, req.WriteRequest = c.ID, c.Writes()
	req.IdempotencyToken = req.WriteRequest.IdempotencyToken
	return endpoint.Write(c, wire.JobDispatch, req)
}

func jobPeriodicForce(c *endpoint.Call) (any, error) {
	q := c.Query
	return endpoint.Write(c, wire.JobPeriodicForce, &api.JobRequest{JobID: c.ID, QueryOptions: q})
}
