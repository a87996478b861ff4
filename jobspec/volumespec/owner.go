package volumespec

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

var ownerPolicies = []string{api.OwnerRootMismatch, api.OwnerAlways, api.OwnerNever}

var mountDead = []string{api.MountDeadIgnore, api.MountDeadRepublish, api.MountDeadRestart, api.MountDeadSignal}

// idMax is the largest user or group id; the one above it means "leave it" to the kernel.
const idMax = 1<<32 - 2

// owner reads who owns the mounted file system. Both ids are required: one that is left out would
// silently be root's.
func (d *decoder) owner(v value) {
	o := &api.VolumeOwner{Policy: api.OwnerRootMismatch}
	known := keys{
		"uid": d.id("uid", &o.UID), "gid": d.id("gid", &o.GID), "mode": d.mode(&o.Mode),
		"policy": choice(d, "policy", ownerPolicies, &o.Policy),
	}
	d.read("owner", v.items, known)
	for _, name := range []string{"uid", "gid"} {
		if !v.says(name) {
			d.wrong(v.at, "owner: %s is missing; 0 means root", name)
		}
	}
	d.spec.Owner = o
}

// says reports whether a block gives a value to the key.
func (v value) says(key string) bool {
	for _, it := range v.items {
		if it.key == key && it.value.kind != null {
			return true
		}
	}
	return false
}

func (d *decoder) id(name string, dst *int) func(value) {
	return func(v value) {
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil || v.kind != number || n < 0 || n > idMax {
			d.wrong(v.at, "%s: %q is not a numeric id from 0 to %d", name, v.text, idMax)
			return
		}
		*dst = int(n)
	}
}

// mode takes octal digits in quotes: a bare number would be read as decimal by JSON.
func (d *decoder) mode(dst *string) func(value) {
	return func(v value) {
		if n, err := strconv.ParseUint(v.text, 8, 32); err != nil || v.kind != text || n > 0o7777 {
			d.wrong(v.at, `mode: %q is not an octal mode in quotes such as "0750"`, v.text)
			return
		}
		*dst = v.text
	}
}
