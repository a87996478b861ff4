package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// valueChecks checks values where they are written.
var valueChecks = func() map[string]func(reflect.Value, tree.Value) error {
	all := maps.Clone(auditValues)
	maps.Copy(all, telemetryValues)
	return all
}()

// decoder decodes a file over the configuration and knows the keys that are not used.
type decoder struct {
	tree.Decoder
	warnings []string
	into     *Config
}

// Decode decodes one file's content over c. A file that begins with a brace is JSON.
func (c *Config) Decode(path string, body []byte) error {
	items, err := hcl1.Parse(path, body)
	if err != nil {
		return err
	}
	d := decoder{Decoder: tree.Decoder{Path: path}, into: c}
	d.Unknown, d.Values = d.unknown, valueChecks
	d.Decode(c, items, "")
	c.Warnings = append(c.Warnings, d.warnings...)
	if len(d.Mistakes) > 0 {
		return fault.Wrap(fault.Invalid, errors.Join(d.Mistakes...))
	}
	return nil
}

// unknown warns of a key that this version accepts and does not use.
func (d *decoder) unknown(it tree.Item, path string) bool {
	if path == "keyring" {
		d.keyring(it)
		return true
	}
	if !unused(path) {
		return false
	}
	d.hurts(it, path)
	warning := tree.Error{Path: d.Path, At: it.At, Reason: path + " is not used by this version"}
	d.warnings = append(d.warnings, warning.Error())
	return true
}

// hurts refuses a key, or one in the block that it is, that this version does not have and that may not be ignored.
func (d *decoder) hurts(it tree.Item, path string) {
	items, isBlock := it.Value.Block()
	if h, known := harmful[path]; known && (h.harmless == nil || !isBlock && fmt.Sprint(it.Value.Any()) != fmt.Sprint(h.harmless)) {
		d.Mistake(it.At, "%s is not in this version: %s; leave it out", path, h.why)
	}
	for _, inner := range items {
		d.hurts(inner, path+"."+inner.Key)
	}
}
