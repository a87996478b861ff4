package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// RootKeys lists the root keys.
func (c *Client) RootKeys(ctx context.Context) ([]*api.RootKeyMeta, error) {
	out, _, err := get[[]*api.RootKeyMeta](ctx, c, Query{}, "operator", "keyring", "keys")
	return out, err
}

// RotateRootKey makes a new root key, which becomes active at a time; zero is immediately.
func (c *Client) RotateRootKey(ctx context.Context, full bool, at time.Time) (*api.RootKeyMeta, error) {
	params := url.Values{"full": {strconv.FormatBool(full)}}
	if !at.IsZero() {
		params.Set("publish_time", strconv.FormatInt(at.UnixNano(), 10))
	}
	out, err := put[api.RootKeyRotateResponse](ctx, c, params, nil, "operator", "keyring", "rotate")
	if err != nil {
		return nil, err
	}
	if out.Key == nil {
		return nil, fault.New(fault.Internal, "the answer holds no key")
	}
	return out.Key, nil
}

// DeleteRootKey deletes a root key that is not active.
func (c *Client) DeleteRootKey(ctx context.Context, id string, force bool) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"operator", "keyring", "key", id}, url.Values{"force": {strconv.FormatBool(force)}}, nil, nil)
	return err
}
