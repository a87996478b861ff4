package volumespec

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
)

var nodeLoss = []string{api.NodeLossFence, api.NodeLossWait, api.NodeLossAssume}

// fences are what may keep a node that was lost from writing.
var fences = []string{api.FenceStorage, api.FenceLease, api.FenceBoth}

// duration takes texts such as "30s"; a bare number says no unit.
func (d *decoder) duration(name string, dst *time.Duration) func(hcl1.Value) {
	return func(v hcl1.Value) {
		t, err := time.ParseDuration(v.Text)
		if err != nil || v.Kind != hcl1.String || t <= 0 {
			d.wrong(v.At, `%s: %q is not a time such as "30s"`, name, v.Text)
			return
		}
		*dst = t
	}
}

// writeBack checks that the part of the lease fits into the lease that the file sets; without one the server does.
func (d *decoder) writeBack(items []hcl1.Item) {
	s := d.spec
	if s.Lease <= 0 || s.WriteBack <= s.Lease/2 {
		return
	}
	for _, it := range items {
		if it.Key == "write_back" {
			d.wrong(it.Value.At, "write_back: %s is more than half of the lease, which is %s", s.WriteBack, s.Lease)
		}
	}
}
