package volumespec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Parse decodes a volume file, HCL or JSON, into the specification of a CSI volume. The error lists every mistake as
// file:line:column: reason. The server checks whether the specification is complete: "volume register" and
// "volume create" need different keys.
func Parse(path string, source []byte) (*api.VolumeSpec, error) {
	if err := bounds.CheckSize(path, len(source)); err != nil {
		return nil, err
	}
	items, err := hcl1.Parse(path, source)
	if err != nil {
		return nil, err
	}
	d := &decoder{Decoder: tree.Decoder{Path: path, Single: true, Ignored: ignored}}
	d.Values = map[string]func(reflect.Value, tree.Value) error{
		"capacity_min": size, "capacity_max": size,
		"fence_after": duration, "lease": duration, "write_back": duration,
		"on_mount_dead":              choice(api.MountDeadIgnore, api.MountDeadRepublish, api.MountDeadRestart, api.MountDeadSignal),
		"on_node_loss":               choice(api.NodeLossFence, api.NodeLossWait, api.NodeLossAssume),
		"fence":                      choice(api.FenceStorage, api.FenceLease, api.FenceBoth),
		"capability.access_mode":     choice(api.AccessModes...),
		"capability.attachment_mode": choice(api.AttachmentFileSystem, api.AttachmentBlock),
		"owner":                      d.owner,
		"owner.uid":                  id, "owner.gid": id, "owner.mode": mode,
		"owner.policy":               choice(api.OwnerRootMismatch, api.OwnerAlways, api.OwnerNever),
		"topology_request.required":  d.topologies,
		"topology_request.preferred": d.topologies,
	}
	spec := &api.VolumeSpec{}
	d.Decode(spec, items, "")
	d.check(spec, items)
	if len(d.Mistakes) > 0 {
		return nil, fault.Wrap(fault.Invalid, errors.Join(d.Mistakes...))
	}
	return spec, nil
}

// Host decodes a volume file whose type is host into the definition of a dynamic host volume. It reports false for files of
// other types.
func Host(path string, source []byte) (v *api.HostVolume, isHost bool, err error) {
	if err := bounds.CheckSize(path, len(source)); err != nil {
		return nil, false, err
	}
	items, err := hcl1.Parse(path, source)
	if err != nil || !slices.ContainsFunc(items, func(it tree.Item) bool {
		return it.Key == "type" && strings.EqualFold(it.Value.Text, api.VolumeTypeHost)
	}) {
		return nil, false, err
	}
	d := &tree.Decoder{Path: path, Single: true, Ignored: []string{"type", "capacity"}}
	d.Values = map[string]func(reflect.Value, tree.Value) error{
		"capacity_min": size, "capacity_max": size,
		"capability.access_mode":     choice(api.AccessSingleNodeReader, api.AccessSingleNodeWriter, api.AccessSingleNodeSingle, api.AccessSingleNodeMulti),
		"capability.attachment_mode": choice(api.AttachmentFileSystem, api.AttachmentBlock),
	}
	v = &api.HostVolume{}
	d.Decode(v, items, "")
	if len(d.Mistakes) > 0 {
		return nil, true, fault.Wrap(fault.Invalid, errors.Join(d.Mistakes...))
	}
	return v, true, nil
}

type decoder struct{ tree.Decoder }

// ignored are the type, which is always the same, and keys of older files that capabilities replace.
var ignored = []string{"type", "access_mode", "attachment_mode"}

// check finds the mistakes that concern more than one key. Without a lease in the file the server checks write_back.
func (d *decoder) check(s *api.VolumeSpec, items []tree.Item) {
	for _, it := range items {
		switch {
		case it.Key == "type" && !strings.EqualFold(it.Value.Text, api.VolumeTypeCSI):
			d.Mistake(it.Value.At, "type %q: only csi and host volumes are supported", it.Value.Text)
		case it.Key == "write_back" && s.Lease > 0 && s.WriteBack > s.Lease/2:
			d.Mistake(it.Value.At, "write_back: %s is more than half of the lease, which is %s", s.WriteBack, s.Lease)
		}
	}
}

func size(dst reflect.Value, v tree.Value) error {
	n, ok := Bytes(v.Text)
	if !ok || v.Kind != tree.String && v.Kind != tree.Number {
		return fmt.Errorf(`%q is not a capacity such as "10GiB"`, v.Text)
	}
	dst.SetInt(n)
	return nil
}

// duration accepts texts such as "30s". A number without a unit is a mistake.
func duration(dst reflect.Value, v tree.Value) error {
	t, err := time.ParseDuration(v.Text)
	if err != nil || v.Kind != tree.String || t <= 0 {
		return fmt.Errorf(`%q is not a duration such as "30s"`, v.Text)
	}
	dst.SetInt(int64(t))
	return nil
}

func choice[T ~string](known ...T) func(reflect.Value, tree.Value) error {
	return func(dst reflect.Value, v tree.Value) error {
		if v.Kind != tree.String || !slices.Contains(known, T(v.Text)) {
			return fmt.Errorf("%q is not one of %s", v.Text, strings.Trim(fmt.Sprint(known), "[]"))
		}
		dst.SetString(v.Text)
		return nil
	}
}

// owner decodes the owner of the mounted file system. Both ids are required: one that is absent would be root's.
func (d *decoder) owner(dst reflect.Value, v tree.Value) error {
	items, ok := v.Block()
	if !ok {
		return fmt.Errorf("a block is needed, not %s", v.Kind)
	}
	o := &api.VolumeOwner{Policy: api.OwnerRootMismatch}
	d.Decode(o, items, "owner")
	for _, name := range []string{"uid", "gid"} {
		if !slices.ContainsFunc(items, func(it tree.Item) bool { return it.Key == name && it.Value.Kind != tree.Null }) {
			d.Mistake(v.At, "owner: %s is missing; 0 means root", name)
		}
	}
	dst.Set(reflect.ValueOf(o))
	return nil
}

// idMax is the largest user or group id. The kernel does not change an owner with the next one.
const idMax = 1<<32 - 2

func id(dst reflect.Value, v tree.Value) error {
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if err != nil || v.Kind != tree.Number || n < 0 || n > idMax {
		return fmt.Errorf("%q is not a numeric id from 0 to %d", v.Text, idMax)
	}
	dst.SetInt(n)
	return nil
}

// mode accepts octal digits in quotes: JSON would read a number as decimal.
func mode(dst reflect.Value, v tree.Value) error {
	if n, err := strconv.ParseUint(v.Text, 8, 32); err != nil || v.Kind != tree.String || n > 0o7777 {
		return fmt.Errorf(`%q is not an octal mode in quotes such as "0750"`, v.Text)
	}
	dst.SetString(v.Text)
	return nil
}

// topologies decodes the topology blocks inside a block, without those that have no segments.
func (d *decoder) topologies(dst reflect.Value, v tree.Value) error {
	items, ok := v.Block()
	if !ok {
		return fmt.Errorf("a block is needed, not %s", v.Kind)
	}
	var all struct {
		Topology []*api.Topology `hcl:"topology"`
	}
	d.Decode(&all, items, "topology_request")
	all.Topology = slices.DeleteFunc(all.Topology, func(t *api.Topology) bool { return len(t.Segments) == 0 })
	dst.Set(reflect.ValueOf(all.Topology))
	return nil
}
