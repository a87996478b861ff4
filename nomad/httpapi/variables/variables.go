package variables

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of variables.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/vars", Serve: list},
	{Method: "GET", Pattern: "/v1/var/:id", Serve: get},
	{Method: "PUT", Pattern: "/v1/var/:id", Serve: put},
	{Method: "DELETE", Pattern: "/v1/var/:id", Serve: remove},
}

func list(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.VariableList, &c.Query)
	if err != nil {
		return nil, err
	}
	return endpoint.List(out.Variables), nil
}

func get(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.VariableGet, &api.VariableRequest{Path: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Meta == nil {
		return nil, endpoint.Missing("variable not found")
	}
	return &api.Variable{VariableMeta: *out.Meta, Items: out.Items}, nil
}

// checkIndex reads the parameter cas; without it, given is false.
func checkIndex(c *endpoint.Call) (index uint64, given bool, err error) {
	if !c.Params.Has("cas") {
		return 0, false, nil
	}
	index, err = strconv.ParseUint(c.Params.Get("cas"), 10, 64)
	if err != nil {
		return 0, false, fault.New(fault.Invalid, "invalid cas value %q: want the ModifyIndex of the variable", c.Params.Get("cas"))
	}
	return index, true, nil
}

// operation is what the query asks to do with the body. It is renew for lock-renew.
func operation(c *endpoint.Call) (op api.VariableOp, index uint64, err error) {
	index, given, err := checkIndex(c)
	if err != nil {
		return "", 0, err
	}
	op, count := api.VariableSet, 0
	if given {
		op, count = api.VariableCAS, 1
	}
	for _, lock := range []api.VariableOp{api.VariableAcquire, api.VariableRelease, renew} {
		if c.Params.Has(string(lock)) {
			op, count = lock, count+1
		}
	}
	if count > 1 {
		return "", 0, fault.New(fault.Invalid, "give one of the parameters cas, lock-acquire, lock-release and lock-renew")
	}
	return op, index, nil
}

const renew api.VariableOp = "lock-renew"

func put(c *endpoint.Call) (any, error) {
	op, index, err := operation(c)
	if err != nil {
		return nil, err
	}
	var v api.Variable
	if err := c.Decode(endpoint.BodyMax, &v); err != nil {
		return nil, err
	}
	if op == renew {
		r := &api.VariableRenewRequest{Path: c.ID, WriteRequest: c.Writes()}
		if v.Lock != nil {
			r.LockID = v.Lock.ID
		}
		out, err := wire.VariableRenew.Call(c.Context(), c.Servers, r)
		if err != nil {
			return nil, err
		}
		return out.Meta, nil
	}
	if (op == api.VariableSet || op == api.VariableCAS) && len(v.Items) == 0 {
		return nil, fault.New(fault.Invalid, "variable missing required Items object")
	}
	return apply(c, &api.VariableApplyRequest{Op: op, Path: c.ID, Items: v.Items, Lock: v.Lock, CheckIndex: index, WriteRequest: c.Writes()})
}

func remove(c *endpoint.Call) (any, error) {
	index, given, err := checkIndex(c)
	if err != nil {
		return nil, err
	}
	op := api.VariableDelete
	if given {
		op = api.VariableDeleteCAS
	}
	return apply(c, &api.VariableApplyRequest{Op: op, Path: c.ID, CheckIndex: index, WriteRequest: c.Writes()})
}

// apply sends a change. The path of the URL names the variable, whatever the body has. The response of a conflict is the
// variable that prevented the change.
func apply(c *endpoint.Call, r *api.VariableApplyRequest) (any, error) {
	out, err := wire.VariableApply.Call(c.Context(), c.Servers, r)
	if err != nil {
		c.SetWrote(api.WriteMeta{})
		return nil, err
	}
	v := &api.Variable{Items: out.Items}
	if out.Meta != nil {
		v.VariableMeta = *out.Meta
	}
	if out.Conflict {
		if v.ModifyIndex > 0 {
			c.SetWrote(api.WriteMeta{Index: v.ModifyIndex})
		}
		body, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		h := c.W.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		c.W.WriteHeader(http.StatusConflict)
		_, _ = c.W.Write(body)
		return nil, endpoint.ErrStreamed
	}
	c.SetWrote(out.WriteMeta)
	if r.Op == api.VariableDelete || r.Op == api.VariableDeleteCAS {
		c.W.WriteHeader(http.StatusNoContent)
		return nil, endpoint.ErrStreamed
	}
	return v, nil
}
