package client

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
)

const (
	// metaFile holds the dynamic metadata of the node as JSON.
	metaFile = "dynamic_meta.json"
	// metaMax bounds the dynamic metadata of a node in bytes: all servers keep it.
	metaMax = 64 << 10
	// metaWait bounds the wait for the disk.
	metaWait = 10 * time.Second
)

// readMetaFile reads the dynamic metadata of an earlier agent process.
func (c *Client) readMetaFile() error {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Internal, "dynamic metadata of the node: %w", err)
	}
	if err := json.Unmarshal(body, &c.meta.dynamic); err != nil {
		return fault.New(fault.Internal, "dynamic metadata of the node: %s: %w: correct the file, or delete it and apply the metadata again",
			filepath.Join(c.conf.StateDir, metaFile), err)
	}
	return nil
}

// nodeMeta returns what jobs see of the static and the dynamic metadata. The caller holds the lock of the dynamic metadata.
func (c *Client) nodeMeta() map[string]string {
	out := maps.Clone(c.conf.Meta)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range c.meta.dynamic {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = *value
		}
	}
	return out
}

// metaShown is the metadata of the node. The caller holds the lock of the dynamic metadata.
func (c *Client) metaShown() *api.NodeMetaResponse {
	out := &api.NodeMetaResponse{Meta: c.nodeMeta(), Dynamic: maps.Clone(c.meta.dynamic), Static: maps.Clone(c.conf.Meta)}
	if out.Dynamic == nil {
		out.Dynamic = map[string]*string{}
	}
	if out.Static == nil {
		out.Static = map[string]string{}
	}
	return out
}

func (c *Client) readMeta(context.Context, *api.NodeRequest) (*api.NodeMetaResponse, error) {
	c.meta.Lock()
	defer c.meta.Unlock()
	return c.metaShown(), nil
}

// applyMeta changes the dynamic metadata: on the disk first, then in the record of the node, which registers again.
func (c *Client) applyMeta(_ context.Context, r *api.NodeMetaApplyRequest) (*api.NodeMetaResponse, error) {
	if err := wrongMeta(r); err != nil {
		return nil, err
	}
	c.meta.Lock()
	defer c.meta.Unlock()
	next := maps.Clone(c.meta.dynamic)
	if next == nil {
		next = map[string]*string{}
	}
	for key, value := range r.Set {
		next[key] = &value
	}
	for _, key := range r.Unset {
		delete(next, key)
		if _, static := c.conf.Meta[key]; static {
			next[key] = nil
		}
	}
	body, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	if len(body) > metaMax {
		return nil, fault.New(fault.TooLarge, "the dynamic metadata of the node would have %d bytes, at most %d are possible: remove keys with -unset", len(body), metaMax)
	}
	write := func(body []byte) func() error {
		return func() error { return durable.WriteFile(filepath.Join(c.conf.StateDir, metaFile), body, 0o600) }
	}
	if err := c.files.meta.await(write(body), metaWait); err != nil {
		if old, bad := json.Marshal(c.meta.dynamic); bad == nil {
			c.files.meta.begin(write(old)) // what was refused must not be written later
		}
		return nil, fault.New(fault.Unavailable, "keep the dynamic metadata of the node: %w", err)
	}
	c.meta.dynamic = next
	merged := c.nodeMeta()
	c.node.update(func(n *api.Node) { n.Meta = merged })
	return c.metaShown(), nil
}

func wrongMeta(r *api.NodeMetaApplyRequest) error {
	keys := slices.AppendSeq(slices.Clone(r.Unset), maps.Keys(r.Set))
	if len(keys) == 0 {
		return fault.New(fault.Invalid, "no metadata to apply: name at least one key")
	}
	for _, key := range keys {
		if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
			return fault.New(fault.Invalid, "%.260q is no key of metadata: keys have 1 to 255 bytes without spaces and control characters", key)
		}
		if strings.ContainsFunc(r.Set[key], unicode.IsControl) {
			return fault.New(fault.Invalid, "the value of the key %q has control characters", key)
		}
	}
	return nil
}
