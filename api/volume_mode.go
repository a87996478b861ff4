package api

import (
	"cmp"
	"slices"
)

// AccessModes lists all modes that a volume may be used in.
var AccessModes = []AccessMode{
	AccessSingleNodeReader, AccessSingleNodeWriter, AccessSingleNodeSingle, AccessSingleNodeMulti,
	AccessMultiNodeReader, AccessMultiNodeSingleWriter, AccessMultiNodeMultiWriter,
}

// Known reports whether the mode is one of [AccessModes].
func (m AccessMode) Known() bool { return slices.Contains(AccessModes, m) }

// SingleUser reports whether a volume in this mode has at most one user. Drivers must reject a second publish
// in these modes but some do not, so a second publish is never requested.
func (m AccessMode) SingleUser() bool {
	return m == AccessSingleNodeReader || m == AccessSingleNodeWriter || m == AccessSingleNodeSingle
}

// SingleNode reports whether a volume in this mode is used on at most one node.
func (m AccessMode) SingleNode() bool { return m.SingleUser() || m == AccessSingleNodeMulti }

// ReadOnly reports whether the mode permits no writes.
func (m AccessMode) ReadOnly() bool { return m == AccessSingleNodeReader || m == AccessMultiNodeReader }

// DriverContext returns the volume context for driver calls: the driver's own for a created volume, otherwise the user's.
func (v *Volume) DriverContext() map[string]string {
	if v.Provision.Created || len(v.Provision.Context) > 0 {
		return v.Provision.Context
	}
	return v.Context
}

// Over returns the options with empty fields taken from others; either may be nil.
func (m *MountOptions) Over(others *MountOptions) *MountOptions {
	if m == nil || others == nil {
		return cmp.Or(m, others)
	}
	merged := MountOptions{FSType: cmp.Or(m.FSType, others.FSType), MountFlags: m.MountFlags}
	if len(merged.MountFlags) == 0 {
		merged.MountFlags = others.MountFlags
	}
	return &merged
}

// Equal reports whether two options are equivalent: the order and repetition of flags do not matter, and nil equals
// empty.
func (m *MountOptions) Equal(o *MountOptions) bool {
	return m.fsType() == o.fsType() && slices.Equal(m.flags(), o.flags())
}

func (m *MountOptions) fsType() string {
	if m == nil {
		return ""
	}
	return m.FSType
}

// flags are the flags in order, each once.
func (m *MountOptions) flags() []string {
	if m == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(m.MountFlags)))
}

// perMountFlags are those that two mounts of one file system may differ in.
var perMountFlags = []string{
	"ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec",
	"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime",
}

// PerMountFlags are the flags, in order, in which mounts of one file system may differ.
func (m *MountOptions) PerMountFlags() []string {
	return slices.DeleteFunc(m.flags(), func(f string) bool { return !slices.Contains(perMountFlags, f) })
}

// SameFileSystem reports whether mounts with these options can share one staged file system: they name the
// same type, where both name one, and differ in per-mount flags only.
func (m *MountOptions) SameFileSystem(o *MountOptions) bool {
	shared := func(m *MountOptions) []string {
		return slices.DeleteFunc(m.flags(), func(f string) bool { return slices.Contains(perMountFlags, f) })
	}
	a, b := m.fsType(), o.fsType()
	return (a == b || a == "" || b == "") && slices.Equal(shared(m), shared(o))
}

// mayShare is [MountOptions.SameFileSystem], except that options without flags match all flags.
func (m *MountOptions) mayShare(o *MountOptions) bool {
	if len(m.flags()) == 0 || len(o.flags()) == 0 {
		m, o = &MountOptions{FSType: m.fsType()}, &MountOptions{FSType: o.fsType()}
	}
	return m.SameFileSystem(o)
}

// HealthyController returns the node's controller of the plugin when the node is ready and the controller
// healthy and known; nil otherwise.
func (n *Node) HealthyController(plugin string) *CSIControllerInfo {
	i := n.CSIControllerPlugins[plugin]
	if i == nil || !i.Healthy || n.Status != NodeStatusReady {
		return nil
	}
	return i.ControllerInfo
}
