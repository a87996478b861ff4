package volumespec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
)

var attachmentModes = []api.AttachmentMode{api.AttachmentFileSystem, api.AttachmentBlock}

// decoder fills a specification and collects all that is wrong.
type decoder struct {
	path     string
	spec     *api.VolumeSpec
	problems []error
}

func (d *decoder) wrong(at hcl1.Place, format string, args ...any) {
	d.problems = append(d.problems, &hcl1.Error{Path: d.path, At: at, Reason: fmt.Sprintf(format, args...)})
}

// keys are what a block may say; each is handed its value.
type keys map[string]func(hcl1.Value)

// read hands the items of a block to its keys. A key that repeats must take blocks.
func (d *decoder) read(where string, items []hcl1.Item, known keys, repeats ...string) {
	seen := map[string]hcl1.Place{}
	for _, it := range items {
		take := known[it.Key]
		if take == nil {
			d.wrong(it.At, "%q is not a key of %s%s", it.Key, where, near(it.Key, slices.Sorted(maps.Keys(known))))
			continue
		}
		if first, twice := seen[it.Key]; twice && !slices.Contains(repeats, it.Key) {
			d.wrong(it.At, "%s is there twice; the first is on line %d", it.Key, first.Line)
			continue
		}
		seen[it.Key] = it.At
		if len(it.Labels) > 0 {
			d.wrong(it.At, "%s takes no label such as %q", it.Key, it.Labels[0])
		}
		if it.Value.Kind != hcl1.Null {
			take(it.Value)
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

func (d *decoder) top(items []hcl1.Item) {
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

func (d *decoder) volumeType(v hcl1.Value) {
	if v.Kind != hcl1.String || !strings.EqualFold(v.Text, api.VolumeTypeCSI) {
		d.wrong(v.At, "type %q: only %q volumes are known", v.Text, api.VolumeTypeCSI)
	}
}

func (d *decoder) text(dst *string) func(hcl1.Value) {
	return func(v hcl1.Value) {
		if v.Kind != hcl1.String {
			d.wrong(v.At, "a string is needed, not %s", v.Kind)
		}
		*dst = v.Text
	}
}

func (d *decoder) size(name string, dst *int64) func(hcl1.Value) {
	return func(v hcl1.Value) {
		n, ok := Bytes(v.Text)
		if !ok || v.Kind != hcl1.String && v.Kind != hcl1.Number {
			d.wrong(v.At, `%s: %q is not a capacity such as "10GiB"`, name, v.Text)
		}
		*dst = n
	}
}

// texts reads a map; numbers and truth values are taken as they are written.
func (d *decoder) texts(dst *map[string]string) func(hcl1.Value) {
	return d.each(func(v hcl1.Value) {
		if *dst == nil {
			*dst = map[string]string{}
		}
		for _, it := range v.Items {
			if _, twice := (*dst)[it.Key]; twice {
				d.wrong(it.At, "%s is there twice", it.Key)
			}
			if it.Value.Kind >= hcl1.Null {
				d.wrong(it.Value.At, "%s: a string is needed, not %s", it.Key, it.Value.Kind)
			}
			(*dst)[it.Key] = it.Value.Text
		}
	})
}

// each hands over a block, or every block of a list of them as JSON writes repeated blocks.
func (d *decoder) each(take func(hcl1.Value)) func(hcl1.Value) {
	return func(v hcl1.Value) {
		blocks := []hcl1.Value{v}
		if v.Kind == hcl1.List {
			blocks = v.List
		}
		for _, b := range blocks {
			if b.Kind != hcl1.Block {
				d.wrong(b.At, "a block is needed, not %s", b.Kind)
				continue
			}
			take(b)
		}
	}
}

func (d *decoder) capability(v hcl1.Value) {
	c := &api.VolumeCapability{}
	d.read("capability", v.Items, keys{
		"access_mode":     choice(d, "access_mode", api.AccessModes, &c.AccessMode),
		"attachment_mode": choice(d, "attachment_mode", attachmentModes, &c.AttachmentMode),
	})
	d.spec.RequestedCapabilities = append(d.spec.RequestedCapabilities, c)
}

func choice[T ~string](d *decoder, name string, known []T, dst *T) func(hcl1.Value) {
	return func(v hcl1.Value) {
		*dst = T(v.Text)
		if v.Kind != hcl1.String || !slices.Contains(known, *dst) {
			d.wrong(v.At, "%s: %q is none of %s", name, v.Text, strings.Trim(fmt.Sprint(known), "[]"))
		}
	}
}

func (d *decoder) mountOptions(v hcl1.Value) {
	m := &api.MountOptions{}
	d.read("mount_options", v.Items, keys{
		"fs_type": d.text(&m.FSType),
		"mount_flags": func(v hcl1.Value) {
			if v.Kind != hcl1.List {
				d.wrong(v.At, "mount_flags: a list is needed, not %s", v.Kind)
			}
			for _, flag := range v.List {
				var s string
				d.text(&s)(flag)
				m.MountFlags = append(m.MountFlags, s)
			}
		},
	})
	d.spec.MountOptions = m
}

func (d *decoder) topologyRequest(v hcl1.Value) {
	r := &api.TopologyRequest{}
	d.read("topology_request", v.Items, keys{
		"required": d.each(d.topologies(&r.Required)), "preferred": d.each(d.topologies(&r.Preferred)),
	})
	d.spec.RequestedTopologies = r
}

func (d *decoder) topologies(dst *[]*api.Topology) func(hcl1.Value) {
	return func(v hcl1.Value) {
		d.read("a list of topologies", v.Items, keys{"topology": d.each(func(v hcl1.Value) {
			t := &api.Topology{}
			d.read("topology", v.Items, keys{"segments": d.texts(&t.Segments)})
			if len(t.Segments) > 0 {
				*dst = append(*dst, t)
			}
		})}, "topology")
	}
}
