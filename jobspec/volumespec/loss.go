package volumespec

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

var nodeLoss = []string{api.NodeLossFence, api.NodeLossWait, api.NodeLossAssume}

// fences are what may keep a node that was lost from writing.
var fences = []string{api.FenceStorage, api.FenceLease, api.FenceBoth}

// duration takes texts such as "30s"; a bare number says no unit.
func (d *decoder) duration(name string, dst *time.Duration) func(value) {
	return func(v value) {
		t, err := time.ParseDuration(v.text)
		if err != nil || v.kind != text || t <= 0 {
			d.wrong(v.at, `%s: %q is not a time such as "30s"`, name, v.text)
			return
		}
		*dst = t
	}
}
