package volumespec

import (
	"bytes"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec"
)

// Parse turns a volume file, HCL or JSON, into the specification of a CSI volume. The error lists
// every mistake as file:line:column: reason. What a complete specification needs is checked by the
// server: a file for "volume register" says other things than one for "volume create".
func Parse(path string, source []byte) (*api.VolumeSpec, error) {
	if len(source) > jobspec.SizeMax {
		return nil, fault.New(fault.TooLarge, "%s: %d bytes, at most %d are read", path, len(source), jobspec.SizeMax)
	}
	items, err := tree(path, source)
	if err != nil {
		return nil, err
	}
	d := &decoder{path: path, spec: &api.VolumeSpec{}}
	d.top(items)
	if len(d.problems) > 0 {
		return nil, fault.Wrap(fault.Invalid, errors.Join(d.problems...))
	}
	return d.spec, nil
}

// tree reads the source in the syntax that its first byte tells.
func tree(path string, source []byte) ([]item, error) {
	if trimmed := bytes.TrimSpace(source); len(trimmed) > 0 && trimmed[0] == '{' {
		if err := jobspec.CheckJSON(source); err != nil {
			return nil, fault.New(fault.Of(err), "%s: %w", path, err)
		}
		return parseJSON(path, source)
	}
	if err := jobspec.CheckSize(path, source); err != nil {
		return nil, err
	}
	return parseHCL(path, source)
}
