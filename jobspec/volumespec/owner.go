package volumespec

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
)

var ownerPolicies = []string{api.OwnerRootMismatch, api.OwnerAlways, api.OwnerNever}

var mountDead = []string{api.MountDeadIgnore, api.MountDeadRepublish, api.MountDeadRestart, api.MountDeadSignal}

// idMax is the largest user or group id; the one above it means "leave it" to the kernel.
const idMax = 1<<32 - 2

// owner reads who owns the mounted file system. Both ids are required: one that is left out would
// silently be root's.
func (d *decoder) owner(v hcl1.Value) {
	o := &api.VolumeOwner{Policy: api.OwnerRootMismatch}
	known := keys{
		"uid": d.id("uid", &o.UID), "gid": d.id("gid", &o.GID), "mode": d.mode(&o.Mode),
		"policy": choice(d, "policy", ownerPolicies, &o.Policy),
	}
	d.read("owner", v.Items, known)
	for _, name := range []string{"uid", "gid"} {
		if !says(v, name) {
			d.wrong(v.At, "owner: %s is missing; 0 means root", name)
		}
	}
	d.spec.Owner = o
}

// says reports whether a block gives a value to the key.
func says(v hcl1.Value, key string) bool {
	for _, it := range v.Items {
		if it.Key == key && it.Value.Kind != hcl1.Null {
			return true
		}
	}
	return false
}

func (d *decoder) id(name string, dst *int) func(hcl1.Value) {
	return func(v hcl1.Value) {
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil || v.Kind != hcl1.Number || n < 0 || n > idMax {
			d.wrong(v.At, "%s: %q is not a numeric id from 0 to %d", name, v.Text, idMax)
			return
		}
		*dst = int(n)
	}
}

// mode takes octal digits in quotes: a bare number would be read as decimal by JSON.
func (d *decoder) mode(dst *string) func(hcl1.Value) {
	return func(v hcl1.Value) {
		if n, err := strconv.ParseUint(v.Text, 8, 32); err != nil || v.Kind != hcl1.String || n > 0o7777 {
			d.wrong(v.At, `mode: %q is not an octal mode in quotes such as "0750"`, v.Text)
			return
		}
		*dst = v.Text
	}
}
