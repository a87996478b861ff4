package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// VariableConflict is the error of a change that was refused because the index or the lock of the variable differs. Its
// text has no items.
type VariableConflict struct {
	// Stored is the variable of the server. Its index is 0 where a lock is the reason or the token may not read.
	Stored *api.Variable
	err    *Error
}

func (c *VariableConflict) Error() string { return c.err.Error() }

// Unwrap is the refusal, without the items.
func (c *VariableConflict) Unwrap() error { return c.err }

// Variables lists variables without their items.
func (c *Client) Variables(ctx context.Context, q Query) ([]*api.VariableMeta, Meta, error) {
	return get[[]*api.VariableMeta](ctx, c, q, "vars")
}

// Variable reads one variable.
func (c *Client) Variable(ctx context.Context, path string) (*api.Variable, error) {
	return c.variable(ctx, http.MethodGet, path, nil, nil)
}

// PutVariable writes a variable and returns what is stored. With check its index must be that one, 0 for a variable that
// does not exist; otherwise the error is a [*VariableConflict].
func (c *Client) PutVariable(ctx context.Context, v *api.Variable, check *uint64) (*api.Variable, error) {
	return c.variable(ctx, http.MethodPut, v.Path, checked(check), v)
}

// DeleteVariable deletes a variable; check is that of [Client.PutVariable].
func (c *Client) DeleteVariable(ctx context.Context, path string, check *uint64) error {
	_, err := c.variable(ctx, http.MethodDelete, path, checked(check), nil)
	return err
}

// LockVariable takes the lock of a variable. The result has the id of the lock, which renewals and the release need.
func (c *Client) LockVariable(ctx context.Context, v *api.Variable) (*api.Variable, error) {
	return c.variable(ctx, http.MethodPut, v.Path, url.Values{string(api.VariableAcquire): {""}}, v)
}

// RenewVariableLock renews the lock that v has.
func (c *Client) RenewVariableLock(ctx context.Context, v *api.Variable) error {
	_, err := c.variable(ctx, http.MethodPut, v.Path, url.Values{"lock-renew": {""}}, v)
	return err
}

// ReleaseVariableLock releases the lock that v has.
func (c *Client) ReleaseVariableLock(ctx context.Context, v *api.Variable) error {
	_, err := c.variable(ctx, http.MethodPut, v.Path, url.Values{string(api.VariableRelease): {""}}, v)
	return err
}

func checked(index *uint64) url.Values {
	if index == nil {
		return nil
	}
	return url.Values{"cas": {strconv.FormatUint(*index, 10)}}
}

func (c *Client) variable(ctx context.Context, method, path string, params url.Values, v *api.Variable) (*api.Variable, error) {
	parts := append([]string{"var"}, strings.Split(path, "/")...)
	for _, p := range parts {
		if p == "" || p == "." || p == ".." { // servers redirect these, and a redirected write is a read
			return nil, fault.New(fault.Invalid, "variable path %q: each part between slashes needs a name", path)
		}
	}
	var body, out any
	stored := &api.Variable{}
	if v != nil {
		body = v
	}
	if method != http.MethodDelete {
		out = stored
	}
	_, err := c.do(ctx, method, parts, params, body, out)
	var refused *Error
	if err == nil || !errors.As(err, &refused) || refused.Code != http.StatusConflict {
		return stored, err
	}
	if json.Unmarshal([]byte(refused.Text), stored) == nil || strings.HasPrefix(refused.Text, "{") {
		refused.Text = "the index or the lock of the variable differs" // the text was the variable with its items
	}
	return nil, &VariableConflict{stored, refused}
}
