package frame_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

func TestOnlyNamesOfTheAgentAreThoseOfHelpers(t *testing.T) {
	helper := frame.HelperName("4711", "0a1b2z3d")
	for _, c := range []struct {
		cgroup string
		is     bool
	}{
		{"0::/nomad.slice/" + helper + "\n", true},
		{"9:cpuset:/\n0::/" + helper + "\n", true},
		{"9:cpuset:/" + helper + "\n0::/\n", false},
		{"0::/" + helper + "/below\n", true},
		{"0::/x" + helper + "/below\n", false},
		{"0::/nomad.slice/x" + frame.HelperScope + "\n", false},
		{"0::/nomad.slice/x.fuse.scope-0123456789abcdef.scope\n", false},
		{"0::/nomad.slice/" + helper + ".scope\n", false},
		{"0::/nomad--0a1b2c3d.fuse.scope\n", false},
		{"0::/nomad-4711-0a1b2c3.fuse.scope\n", false},
		{"0::/nomad-4711-0A1B2C3D.fuse.scope\n", false},
		{"0::/nomad-.fuse.scope\n", false},
		{"0::/\n", false},
		{"", false},
	} {
		if got := frame.InHelperScope(c.cgroup, func(string) bool { return true }); got != c.is {
			t.Errorf("%q is that of a helper: %v", c.cgroup, got)
		}
	}
}
