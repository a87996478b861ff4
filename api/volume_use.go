package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

//msgp:ignore VolumeUse

// VolumeUse is one way in which an allocation uses a CSI volume: the requests of its group that agree in
// everything but their names. In modes of a single user, requests that differ in ReadOnly only are one use,
// which writes; tasks of the read-only requests mount it read-only.
type VolumeUse struct {
	VolumeID string
	// Name distinguishes the uses of one volume: empty for the only one, otherwise the first of Aliases.
	Name string
	// Aliases are the names of the requests in order.
	Aliases        []string
	ReadOnly       bool
	AccessMode     AccessMode
	AttachmentMode AttachmentMode
	// MountOptions replace those of the volume; nil replaces nothing.
	MountOptions *MountOptions
}

// VolumeUses lists the uses of CSI volumes by the allocation's group, by volume and name.
func (a *Allocation) VolumeUses() []*VolumeUse {
	if g := a.Group(); g != nil {
		return VolumeUses(g.Volumes, a.Name)
	}
	return nil
}

// VolumeUses lists the uses of CSI volumes by an allocation with the name, by volume and name.
func VolumeUses(requests map[string]*VolumeRequest, allocName string) (uses []*VolumeUse) {
	for _, alias := range slices.Sorted(maps.Keys(requests)) {
		if r := requests[alias]; r != nil && r.Type == VolumeTypeCSI {
			uses = addUse(uses, r.use(alias, allocName))
		}
	}
	nameUses(uses)
	slices.SortStableFunc(uses, func(a, b *VolumeUse) int { return strings.Compare(a.VolumeID, b.VolumeID) })
	return uses
}

// OnOneNode reports whether all allocations of the group are on one node, for a CSI volume that they share. The group may
// be nil.
func (g *TaskGroup) OnOneNode() bool {
	if g == nil {
		return false
	}
	for _, r := range g.Volumes {
		if r != nil && r.Type == VolumeTypeCSI && !r.PerAlloc && AccessMode(r.AccessMode).SingleNode() {
			return true
		}
	}
	return false
}

func (r *VolumeRequest) use(alias, allocName string) *VolumeUse {
	return &VolumeUse{
		VolumeID: r.SourceFor(allocName), Aliases: []string{alias}, ReadOnly: r.ReadOnly,
		AccessMode: AccessMode(r.AccessMode), AttachmentMode: AttachmentMode(r.AttachmentMode), MountOptions: r.MountOptions,
	}
}

func addUse(uses []*VolumeUse, u *VolumeUse) []*VolumeUse {
	i := slices.IndexFunc(uses, u.same)
	if i < 0 {
		return append(uses, u)
	}
	uses[i].Aliases = append(uses[i].Aliases, u.Aliases...)
	uses[i].ReadOnly = uses[i].ReadOnly && u.ReadOnly
	return uses
}

func (u *VolumeUse) same(o *VolumeUse) bool {
	return u.VolumeID == o.VolumeID && u.AccessMode == o.AccessMode && u.AttachmentMode == o.AttachmentMode &&
		(u.ReadOnly == o.ReadOnly || u.AccessMode == "" || u.AccessMode.SingleUser()) && u.MountOptions.Equal(o.MountOptions)
}

// Contradicts returns why one allocation cannot use the same volume in both ways, naming the requests; empty when it
// can, as far as that is known without the volume: what options leave open is the volume's. A node attaches and
// stages a volume once, for all its users.
func (u *VolumeUse) Contradicts(o *VolumeUse) string {
	if why := u.apart(o); why != "" && u.VolumeID == o.VolumeID {
		return fmt.Sprintf("volumes %q and %q are the same volume %q, %s", u.Aliases[0], o.Aliases[0], u.VolumeID, why)
	}
	return ""
}

func (u *VolumeUse) apart(o *VolumeUse) string {
	switch single := u.AccessMode.SingleNode() || o.AccessMode.SingleNode(); {
	case u.AttachmentMode != "" && o.AttachmentMode != "" && u.AttachmentMode != o.AttachmentMode:
		return fmt.Sprintf("which is either a file system or a block device: attachment_mode is %q and %q", u.AttachmentMode, o.AttachmentMode)
	case single && u.AccessMode != o.AccessMode:
		return fmt.Sprintf("with access_mode %q and %q: use one, with read_only where nothing is written", u.AccessMode, o.AccessMode)
	}
	return u.MountOptions.apart(o.MountOptions, u)
}

func (m *MountOptions) apart(o *MountOptions, u *VolumeUse) string {
	switch {
	case u.AccessMode.SingleUser() && !m.Equal(o):
		return fmt.Sprintf("which is mounted once with access_mode %q: mount_options differ", u.AccessMode)
	case u.AttachmentMode != AttachmentBlock && !m.mayShare(o):
		return "which is one file system: mount_options differ in fs_type, or in flags that are not those of single mounts"
	}
	return ""
}

func nameUses(uses []*VolumeUse) {
	count := map[string]int{}
	for _, u := range uses {
		count[u.VolumeID]++
	}
	for _, u := range uses {
		if count[u.VolumeID] > 1 {
			u.Name = u.Aliases[0]
		}
	}
}

// SourceFor returns the id of the volume that the request names for an allocation: with per_alloc it ends in the
// allocation's index as its name does, "data[3]" for "job.group[3]".
func (r *VolumeRequest) SourceFor(allocName string) string {
	if i := strings.LastIndexByte(allocName, '['); r.PerAlloc && i >= 0 {
		return r.Source + allocName[i:]
	}
	return r.Source
}
