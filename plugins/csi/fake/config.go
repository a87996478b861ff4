package fake

import (
	"time"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Config describes what the driver can do. The zero value is a controller and node in one with staging, creation,
// expansion, snapshots and lists, without attaching.
type Config struct {
	// Storage is shared by the drivers of several nodes; nil makes a new one.
	Storage *Storage
	// Name is what the driver calls itself; empty means fake.open-nomad.dev.
	Name string
	// NodeID is the provider's name of the node; empty means fake-node.
	NodeID string
	// NoController leaves the controller service out, NoNode the node service.
	NoController, NoNode bool
	Attach               bool
	// NoStage leaves staging out.
	NoStage bool
	// ReadOnlyAttach adds PUBLISH_READONLY.
	ReadOnlyAttach bool
	// NoLists leaves the lists of the controller out, NoExpand its expansion: then nodes make volumes grow.
	NoExpand, NoLists bool
	// GetVolume adds GET_VOLUME, GetSnapshot GET_SNAPSHOT, ListPublished LIST_VOLUMES_PUBLISHED_NODES.
	GetVolume, GetSnapshot, ListPublished bool
	// Topology makes volumes reachable only from nodes with these segments.
	Topology map[string]string
	// Starting makes Probe report not ready until SetReady.
	Starting bool
	// NilEntries makes lists have holes, as broken plugins do.
	NilEntries bool
	// DataDir makes bind mounts of directories in it.
	DataDir string
	// Host is where binds are made; nil means this machine.
	Host mounts.Host
	// NoMountAtTarget makes publishing succeed without a mount.
	NoMountAtTarget bool
	// MakeNode makes the device node of a volume that is published as a device; nil binds a directory.
	MakeNode func(target string)
	// NoMountAtStaging makes staging succeed without a mount, as drivers do that open a session.
	NoMountAtStaging bool
	// BelievesStaged makes repeated staging succeed without a check of the mount.
	BelievesStaged bool
	// PublishStaging publishes what is at the staging path, be it mounted or not, as most drivers that stage do.
	PublishStaging bool
	// KeepTarget leaves target paths where they are when they are unpublished.
	KeepTarget bool
	// MountGroup adds VOLUME_MOUNT_GROUP; the group is only recorded with the call.
	MountGroup bool
	// OfflineExpansion requires that volumes are not in use while they grow.
	OfflineExpansion bool
	// Deaf makes the driver continue its work when a caller's context ends, as most do; its reply is lost then.
	Deaf bool
	// Pace is how long a call takes; nil means no time.
	Pace func(Call) time.Duration
}

// Change gives the driver other capabilities, as an upgrade does. What it is served as stays until it is served
// again.
func (d *Driver) Change(change func(*Config)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.conf)
}

// config is a copy of the driver's configuration as it is now.
func (d *Driver) config() Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conf
}
