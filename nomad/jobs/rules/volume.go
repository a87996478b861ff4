package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/fileowner"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// exclusive reports whether one allocation at most can have the volume as it is asked for.
func exclusive(v *api.VolumeRequest) bool {
	m := api.AccessMode(v.AccessMode)
	return m.SingleUser() || m == api.AccessMultiNodeSingleWriter && !v.ReadOnly
}

func (c *check) volumes(where string, g *api.TaskGroup) {
	if c.atMost(len(g.Volumes), volumesMax, "%s: volumes", where); len(g.Volumes) > volumesMax {
		return
	}
	for _, name := range sorted(g.Volumes) {
		v, at := g.Volumes[name], fmt.Sprintf("%s, volume %q", where, name)
		if v == nil {
			c.wrong(true, "%s is null", at)
			continue
		}
		c.oneOf(v.Type, []string{api.VolumeTypeCSI, api.VolumeTypeHost}, "%s: type", at)
		c.wrong(v.Source == "", "%s has no source", at)
		c.wrong(v.PerAlloc && everywhere(c.job), "%s: per_alloc is not possible in a %s job", at, c.job.Type)
		c.wrong(v.PerAlloc && canaries(g), "%s: per_alloc is not possible with canaries", at)
		c.wrong(v.PerAlloc && v.Sticky, "%s: per_alloc and sticky exclude each other", at)
		switch v.Type {
		case api.VolumeTypeCSI:
			c.csi(at, g, v)
		case api.VolumeTypeHost:
			c.host(at, v)
		}
	}
	c.uses(where, g)
}

// uses checks that requests for the same volume can be served beside each other.
func (c *check) uses(where string, g *api.TaskGroup) {
	seen := map[string]bool{}
	for _, index := range indexes(g) {
		uses := api.VolumeUses(g.Volumes, fmt.Sprintf("[%d]", index))
		for i, u := range uses {
			for _, other := range uses[:i] {
				why := other.Contradicts(u)
				c.wrong(why != "" && !seen[why], "%s: %s", where, why)
				seen[why] = true
			}
		}
	}
}

// indexes are those allocations of the group that may name a volume twice: all do alike, but that the source of
// one request may be what per_alloc makes of another's.
func indexes(g *api.TaskGroup) []int {
	list := []int{0}
	for _, each := range g.Volumes {
		if each == nil || !each.PerAlloc {
			continue
		}
		for _, v := range g.Volumes {
			var index int
			if v == nil || v.PerAlloc || !strings.HasPrefix(v.Source, each.Source+"[") {
				continue
			}
			if n, _ := fmt.Sscanf(v.Source[len(each.Source):], "[%d]", &index); n == 1 && index > 0 && index < g.Count && !slices.Contains(list, index) {
				list = append(list, index)
			}
		}
	}
	slices.Sort(list)
	return list
}

func (c *check) host(at string, v *api.VolumeRequest) {
	c.wrong(v.Sticky && everywhere(c.job), "%s: sticky is not possible in a %s job, whose allocations stay on their nodes", at, c.job.Type)
	mode := api.AccessMode(v.AccessMode)
	if v.AccessMode != "" {
		c.oneOf(v.AccessMode, []string{
			string(api.AccessSingleNodeReader), string(api.AccessSingleNodeWriter), string(api.AccessSingleNodeSingle), string(api.AccessSingleNodeMulti),
		}, "%s: access_mode", at)
	}
	if v.AttachmentMode != "" {
		c.oneOf(v.AttachmentMode, []string{string(api.AttachmentFileSystem)}, "%s: attachment_mode of a host volume", at)
	}
	c.wrong(mode == api.AccessSingleNodeReader && !v.ReadOnly, "%s: access mode %s needs read_only = true", at, mode)
}

func canaries(g *api.TaskGroup) bool { return g.Update != nil && g.Update.Canary > 0 }

func (c *check) csi(at string, g *api.TaskGroup, v *api.VolumeRequest) {
	c.wrong(v.Sticky, "%s: sticky is for host volumes", at)
	c.wrong(v.AccessMode == "", "%s: access_mode is required for CSI volumes", at)
	c.wrong(v.AttachmentMode == "", "%s: attachment_mode is required for CSI volumes", at)
	if v.AccessMode != "" {
		c.oneOf(v.AccessMode, modes(), "%s: access_mode", at)
	}
	if v.AttachmentMode != "" {
		c.oneOf(v.AttachmentMode, []string{string(api.AttachmentFileSystem), string(api.AttachmentBlock)}, "%s: attachment_mode", at)
	}
	c.wrong(api.AccessMode(v.AccessMode).ReadOnly() && !v.ReadOnly, "%s: access mode %s needs read_only = true", at, v.AccessMode)
	c.wrong(v.AttachmentMode == string(api.AttachmentBlock) && v.MountOptions != nil && v.MountOptions.FSType != "",
		"%s: a block device has no file system: leave out mount_options.fs_type", at)
	if v.PerAlloc || !exclusive(v) {
		return
	}
	c.wrong(g.Count > 1, "%s: access mode %s allows one allocation, count is %d; use per_alloc or another access mode", at, v.AccessMode, g.Count)
	c.wrong(canaries(g), "%s: a canary can never get a volume with access mode %s while the old allocation holds it; set update.canary to 0", at, v.AccessMode)
}

func modes() (names []string) {
	for _, m := range api.AccessModes {
		names = append(names, string(m))
	}
	return names
}

func (c *check) mounts(where string, g *api.TaskGroup, t *api.Task) {
	seen := map[string]bool{}
	for _, m := range t.VolumeMounts {
		c.wrong(g.Volumes[m.Volume] == nil, "%s: volume_mount names volume %q, which the group does not have", where, m.Volume)
		c.wrong(m.Destination == "", "%s: volume_mount of %q has no destination", where, m.Volume)
		c.wrong(seen[path.Clean(m.Destination)] && m.Destination != "", "%s: two volumes are mounted at %q", where, m.Destination)
		seen[path.Clean(m.Destination)] = true
		c.oneOf(m.PropagationMode, []string{
			"", api.VolumeMountPropagationPrivate, api.VolumeMountPropagationHostToTask,
			api.VolumeMountPropagationBidirectional,
		}, "%s: propagation_mode of %q", where, m.Volume)
		c.oneOf(m.SELinuxLabel, []string{"", "z", "Z"}, "%s: selinux_label of %q", where, m.Volume)
		c.subPath(where, g.Volumes[m.Volume], m)
		c.shownOwner(where, g.Volumes[m.Volume], m)
	}
}

// shownOwner refuses owners that the node could not map.
func (c *check) shownOwner(where string, v *api.VolumeRequest, m *api.VolumeMount) {
	if m.Owner == "" {
		return
	}
	_, err := fileowner.Parse(m.Owner)
	c.wrong(err != nil, "%s: owner of volume_mount %q: %v", where, m.Volume, err)
	c.wrong(v != nil && v.Type == api.VolumeTypeCSI && v.AttachmentMode == string(api.AttachmentBlock),
		"%s: owner of volume_mount %q: a block device has no files: leave it out", where, m.Volume)
}

// subPath keeps to directories inside of the volume; the node refuses links that lead out of it.
func (c *check) subPath(where string, v *api.VolumeRequest, m *api.VolumeMount) {
	if m.SubPath == "" {
		return
	}
	c.wrong(path.IsAbs(m.SubPath), "%s: sub_path %q of volume_mount %q is absolute: name a directory relative to the volume's root", where, m.SubPath, m.Volume)
	c.wrong(slices.Contains(strings.Split(m.SubPath, "/"), ".."),
		"%s: sub_path %q of volume_mount %q contains \"..\": it must stay inside of the volume", where, m.SubPath, m.Volume)
	c.wrong(strings.ContainsRune(m.SubPath, 0), "%s: sub_path %q of volume_mount %q contains a zero byte", where, m.SubPath, m.Volume)
	c.wrong(v != nil && v.Type == api.VolumeTypeCSI && v.AttachmentMode == string(api.AttachmentBlock),
		"%s: sub_path of volume_mount %q: a block device has no directories: leave it out", where, m.Volume)
}

var pluginID = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (c *check) plugin(where string, p *api.CSIPluginConfig) {
	if p == nil {
		return
	}
	c.wrong(!pluginID().MatchString(p.ID), "%s: csi_plugin id %q must be letters, digits, dots, dashes or underscores, at most 128", where, p.ID)
	c.oneOf(p.Type, []string{api.CSIPluginTypeNode, api.CSIPluginTypeController, api.CSIPluginTypeMonolith}, "%s: csi_plugin type", where)
	mount, base := path.Clean("/"+p.MountDir), path.Clean("/"+p.StagePublishBaseDir)
	c.wrong(p.MountDir != "" && p.StagePublishBaseDir != "" && (base == mount || strings.HasPrefix(base, mount+"/")),
		"%s: stage_publish_base_dir %s must not be inside mount_dir %s", where, p.StagePublishBaseDir, p.MountDir)
	c.wrong(p.HealthTimeout < 0, "%s: csi_plugin health_timeout is negative", where)
}
