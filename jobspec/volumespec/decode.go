package volumespec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

var attachmentModes = []api.AttachmentMode{api.AttachmentFileSystem, api.AttachmentBlock}

// decoder fills a specification and collects all that is wrong.
type decoder struct {
	path     string
	spec     *api.VolumeSpec
	problems []error
}

func (d *decoder) wrong(at place, format string, args ...any) {
	d.problems = append(d.problems, &problem{d.path, at, fmt.Sprintf(format, args...)})
}

// keys are what a block may say; each is handed its value.
type keys map[string]func(value)

// read hands the items of a block to its keys. A key that repeats must take blocks.
func (d *decoder) read(where string, items []item, known keys, repeats ...string) {
	seen := map[string]place{}
	for _, it := range items {
		take := known[it.key]
		if take == nil {
			d.wrong(it.at, "%q is not a key of %s%s", it.key, where, near(it.key, slices.Sorted(maps.Keys(known))))
			continue
		}
		if first, twice := seen[it.key]; twice && !slices.Contains(repeats, it.key) {
			d.wrong(it.at, "%s is there twice; the first is on line %d", it.key, first.line)
			continue
		}
		seen[it.key] = it.at
		if it.value.kind != null {
			take(it.value)
		}
	}
}

// near offers the key that was probably meant.
func near(key string, known []string) string {
	folded := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, k := range known {
		a, b := folded(key), folded(k)
		if a == b || a+"s" == b || b+"s" == a || oneOff(a, b) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return ", which has " + strings.Join(known, ", ")
}

// oneOff reports whether one letter more, less, other or swapped makes the words equal.
func oneOff(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a)+len(b) <= 1
	case a[1:] == b[1:] || a[1:] == b || a == b[1:]:
		return true
	}
	return len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}

func (d *decoder) top(items []item) {
	s, old := d.spec, ""
	d.read("a volume file", items, keys{
		"type": d.volumeType, "id": d.text(&s.ID), "name": d.text(&s.Name), "namespace": d.text(&s.Namespace),
		"plugin_id": d.text(&s.PluginID), "external_id": d.text(&s.ExternalID),
		"snapshot_id": d.text(&s.SnapshotID), "clone_id": d.text(&s.CloneID),
		"capacity_min": d.size("capacity_min", &s.RequestedCapacityMin),
		"capacity_max": d.size("capacity_max", &s.RequestedCapacityMax),
		"secrets":      d.texts(&s.Secrets), "parameters": d.texts(&s.Parameters), "context": d.texts(&s.Context),
		"capability": d.each(d.capability), "mount_options": d.each(d.mountOptions), "topology_request": d.each(d.topologyRequest),
		"owner": d.each(d.owner), "on_mount_dead": choice(d, "on_mount_dead", mountDead, &s.OnMountDead),
		"on_node_loss": choice(d, "on_node_loss", nodeLoss, &s.OnNodeLoss),
		"fence":        choice(d, "fence", fences, &s.Fence),
		"fence_after":  d.duration("fence_after", &s.FenceAfter), "lease": d.duration("lease", &s.Lease),
		"write_back": d.duration("write_back", &s.WriteBack),
		// Files of old have these; capabilities say the same now.
		"access_mode": d.text(&old), "attachment_mode": d.text(&old),
	}, "capability")
	d.writeBack(items)
}

func (d *decoder) volumeType(v value) {
	if v.kind != text || !strings.EqualFold(v.text, api.VolumeTypeCSI) {
		d.wrong(v.at, "type %q: only %q volumes are known", v.text, api.VolumeTypeCSI)
	}
}

func (d *decoder) text(dst *string) func(value) {
	return func(v value) {
		if v.kind != text {
			d.wrong(v.at, "a string is needed, not %s", v.kind)
		}
		*dst = v.text
	}
}

func (d *decoder) size(name string, dst *int64) func(value) {
	return func(v value) {
		n, ok := Bytes(v.text)
		if !ok || v.kind != text && v.kind != number {
			d.wrong(v.at, `%s: %q is not a capacity such as "10GiB"`, name, v.text)
		}
		*dst = n
	}
}

// texts reads a map; numbers and truth values are taken as they are written.
func (d *decoder) texts(dst *map[string]string) func(value) {
	return d.each(func(v value) {
		if *dst == nil {
			*dst = map[string]string{}
		}
		for _, it := range v.items {
			if _, twice := (*dst)[it.key]; twice {
				d.wrong(it.at, "%s is there twice", it.key)
			}
			if it.value.kind >= null {
				d.wrong(it.value.at, "%s: a string is needed, not %s", it.key, it.value.kind)
			}
			(*dst)[it.key] = it.value.text
		}
	})
}

// each hands over a block, or every block of a list of them as JSON writes repeated blocks.
func (d *decoder) each(take func(value)) func(value) {
	return func(v value) {
		blocks := []value{v}
		if v.kind == list {
			blocks = v.list
		}
		for _, b := range blocks {
			if b.kind != body {
				d.wrong(b.at, "a block is needed, not %s", b.kind)
				continue
			}
			take(b)
		}
	}
}

func (d *decoder) capability(v value) {
	c := &api.VolumeCapability{}
	d.read("capability", v.items, keys{
		"access_mode":     choice(d, "access_mode", api.AccessModes, &c.AccessMode),
		"attachment_mode": choice(d, "attachment_mode", attachmentModes, &c.AttachmentMode),
	})
	d.spec.RequestedCapabilities = append(d.spec.RequestedCapabilities, c)
}

func choice[T ~string](d *decoder, name string, known []T, dst *T) func(value) {
	return func(v value) {
		*dst = T(v.text)
		if v.kind != text || !slices.Contains(known, *dst) {
			d.wrong(v.at, "%s: %q is none of %s", name, v.text, strings.Trim(fmt.Sprint(known), "[]"))
		}
	}
}

func (d *decoder) mountOptions(v value) {
	m := &api.MountOptions{}
	d.read("mount_options", v.items, keys{
		"fs_type": d.text(&m.FSType),
		"mount_flags": func(v value) {
			if v.kind != list {
				d.wrong(v.at, "mount_flags: a list is needed, not %s", v.kind)
			}
			for _, flag := range v.list {
				var s string
				d.text(&s)(flag)
				m.MountFlags = append(m.MountFlags, s)
			}
		},
	})
	d.spec.MountOptions = m
}

func (d *decoder) topologyRequest(v value) {
	r := &api.TopologyRequest{}
	d.read("topology_request", v.items, keys{
		"required": d.each(d.topologies(&r.Required)), "preferred": d.each(d.topologies(&r.Preferred)),
	})
	d.spec.RequestedTopologies = r
}

func (d *decoder) topologies(dst *[]*api.Topology) func(value) {
	return func(v value) {
		d.read("a list of topologies", v.items, keys{"topology": d.each(func(v value) {
			t := &api.Topology{}
			d.read("topology", v.items, keys{"segments": d.texts(&t.Segments)})
			if len(t.Segments) > 0 {
				*dst = append(*dst, t)
			}
		})}, "topology")
	}
}
