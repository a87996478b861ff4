package volumespec

import (
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
)

// Parse turns a volume file, HCL or JSON, into the specification of a CSI volume. The error lists
// every mistake as file:line:column: reason. What a complete specification needs is checked by the
// server: a file for "volume register" says other things than one for "volume create".
func Parse(path string, source []byte) (*api.VolumeSpec, error) {
	if err := bounds.CheckSize(path, len(source)); err != nil {
		return nil, err
	}
	items, err := hcl1.Parse(path, source)
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
