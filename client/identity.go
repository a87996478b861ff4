package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// identity reads the node's id and secret, or makes them; fresh reports that the id is new. They are files of their
// own, so that the node stays the same when its database is lost.
func identity(dir string) (id, secret string, fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", false, fmt.Errorf("make state directory: %w", err)
	}
	if id, fresh, err = keep(filepath.Join(dir, "client-id")); err != nil {
		return "", "", false, err
	}
	secret, _, err = keep(filepath.Join(dir, "secret-id"))
	return id, secret, fresh, err
}

// keep reads the uuid in the file, or writes a new one.
func keep(path string) (id string, fresh bool, err error) {
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		text := strings.TrimSpace(string(b))
		if _, err := uuid.Parse(text); err != nil {
			return "", false, fault.New(fault.Invalid, "%s does not hold an id: remove it to make this a new node", path)
		}
		return text, false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("read identity of the node: %w", err)
	}
	id = uuid.NewString()
	if err := durable.WriteFile(path, []byte(id), 0o600); err != nil {
		return "", false, fmt.Errorf("write identity of the node: %w", err)
	}
	return id, true, nil
}

const (
	// identityFile holds the signed identity of the node.
	identityFile = "identity.jwt"
	// introFile holds an introduction token for a node whose configuration has none.
	introFile = "intro_token.jwt"
	// identityWait bounds the wait until the first identity is stored.
	identityWait = time.Second
)

// readToken returns the token in a file of the state directory; empty for none.
func (c *Client) readToken(name string) string {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("cannot read a token of the node", "file", name, "error", err)
	}
	return strings.TrimSpace(string(body))
}

// identitySigned returns the signed identity of the node; empty before the servers have issued one.
func (c *Client) identitySigned() string {
	if jwt := c.signed.Load(); jwt != nil {
		return *jwt
	}
	return ""
}

// credential returns what the node authenticates with: its signed identity, or its secret before it has one.
func (c *Client) credential() string { return cmp.Or(c.identitySigned(), c.secret) }

// identityReceived stores a new identity and uses it once it is stored: from its first use on the servers refuse the
// secret alone, and a node that lost its identity needs an introduction. A node that has an older identity in the file
// uses the new one even if the disk fails. Heartbeats do not wait for the disk, except for a moment with the first identity:
// servers that know an older one refuse calls with the secret.
func (c *Client) identityReceived(jwt string) {
	if jwt == "" {
		return
	}
	c.renewIdentity.Store(false)
	write := func() error {
		err := durable.WriteFile(filepath.Join(c.conf.StateDir, identityFile), []byte(jwt), 0o600)
		if err != nil {
			c.log.Warn("store the signed identity of the node", "error", err)
			if c.identitySigned() == "" {
				return err
			}
		}
		c.signed.Store(&jwt)
		c.conf.Servers.SetNode(c.id, jwt)
		c.node.beatSoon()
		return err
	}
	if c.identitySigned() != "" {
		c.files.identity.begin(write)
	} else if err := c.files.identity.await(write, identityWait); err != nil {
		c.log.Warn("the node has no signed identity yet", "error", err)
	}
}

// nodeIdentity returns the claims of the node's signed identity.
func (c *Client) nodeIdentity(context.Context, *api.NodeRequest) (*api.NodeIdentityResponse, error) {
	jwt := c.identitySigned()
	if jwt == "" {
		return nil, fault.New(fault.NotFound, "node %q has no signed identity yet: the servers issue it with a heartbeat", c.id)
	}
	_, rest, _ := strings.Cut(jwt, ".")
	payload, _, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || !json.Valid(claims) {
		return nil, fault.New(fault.Internal, "%s in %s of node %q is not a JWT", identityFile, c.conf.StateDir, c.id)
	}
	return &api.NodeIdentityResponse{Claims: claims}, nil
}

// renewNodeIdentity sends a heartbeat that requests a new identity.
func (c *Client) renewNodeIdentity(context.Context, *api.NodeRequest) (*api.Empty, error) {
	c.renewIdentity.Store(true)
	c.node.beatSoon()
	return &api.Empty{}, nil
}
