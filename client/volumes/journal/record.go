package journal

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Prefixes of the keys of records.
const (
	RowPrefix   = "row/"
	StagePrefix = "stage/"
)

// State is where one allocation's use of one volume stands.
type State string

const (
	// Claiming has asked the servers; no driver was called.
	Claiming State = "claiming"
	// Mounting may be published: the driver was, or is about to be, called.
	Mounting State = "mounting"
	// Mounted is published, and was seen in the mount table.
	Mounted State = "mounted"
	// Leaving must be unpublished, and unstaged when it is the volume's last use.
	Leaving State = "leaving"
	// Released has nothing on the node; the servers do not know yet.
	Released State = "released"
)

// Row is one allocation's use of one volume, with all that is needed to undo it. It holds no secrets.
type Row struct {
	State     State
	AllocID   string
	Namespace string
	VolumeID  string
	// Use distinguishes the uses of one volume by one allocation; empty for the only one.
	Use        string `json:",omitempty"`
	PluginID   string
	ExternalID string
	Target     csiplugins.Place
	Staging    csiplugins.Place
	// Stages is set when the plugin stages.
	Stages         bool
	ReadOnly       bool
	AccessMode     api.AccessMode
	AttachmentMode api.AttachmentMode
	MountOptions   *api.MountOptions `json:",omitempty"`
	PublishContext map[string]string `json:",omitempty"`
	Context        map[string]string `json:",omitempty"`
	// Owner is who gets the mounted file system.
	Owner *api.VolumeOwner `json:",omitempty"`
	// Seen is what was mounted at the target.
	Seen   *mounts.Entry `json:",omitempty"`
	BootID string
	// Lease is for how long the volume may be used after the last heartbeat that got a reply; 0 means indefinitely.
	Lease time.Duration `json:",omitempty"`
	// WriteBack is the last part of the lease, in which no process uses the volume any more.
	WriteBack time.Duration `json:",omitempty"`
	// Took is how long writing back and unmounting took.
	Took time.Duration `json:",omitempty"`
	// OnMountDead is the volume's policy for a mount that stops answering.
	OnMountDead string `json:",omitempty"`
	// Stale is set while running tasks still have the mount from before a republish.
	Stale bool `json:",omitempty"`
	// Told is the last failure that the servers know of.
	Told string `json:",omitempty"`
	Failing
	// Helpers are the scopes of the processes that serve the mount and outlive the plugin.
	Helpers []string `json:",omitempty"`

	// ID and Vol are the results of Key and Volume. The journal sets them; a row that is made from the mount table has its own.
	ID  string `json:"-"`
	Vol string `json:"-"`
}

// Failing counts the failures of the plugin at something, as to take it down; FailingSince is when the first was.
type Failing struct {
	Failures     int       `json:",omitempty"`
	FailingSince time.Time `json:",omitzero"`
}

// Once adds a failure. A clock that was set back must not make anybody wait until it comes there again.
func (f Failing) Once() Failing {
	if now := time.Now(); f.FailingSince.IsZero() || f.FailingSince.After(now) {
		f.FailingSince = now
	}
	f.Failures++
	return f
}

// RowKey returns the key of the record of a use.
func RowKey(allocID, namespace, volumeID, use string) string {
	if use == "" {
		return RowPrefix + allocID + "/" + csiplugins.Hash(namespace, volumeID)
	}
	return RowPrefix + allocID + "/" + csiplugins.Hash(namespace, volumeID, use)
}

// Key is the key of the record.
func (r *Row) Key() string {
	if r.ID != "" {
		return r.ID
	}
	return RowKey(r.AllocID, r.Namespace, r.VolumeID, r.Use)
}

// Volume is the key of the volume as the driver knows it.
func (r *Row) Volume() string {
	if r.Vol != "" {
		return r.Vol
	}
	return csiplugins.VolumeKey(r.PluginID, r.ExternalID)
}

// Touched reports whether the driver may have done something for the row.
func (r *Row) Touched() bool { return r.Target.Host != "" }

// Device reports whether the volume is a block device.
func (r *Row) Device() bool { return r.AttachmentMode == api.AttachmentBlock }

// LeaseTerm returns the lease of the use.
func (r *Row) LeaseTerm() api.LeaseTerm { return api.LeaseTerm{Term: r.Lease, WriteBack: r.WriteBack} }

// Owned reports whether the volume must be given to its owner before it can be used.
func (r *Row) Owned() bool {
	return r.Owner != nil && r.Owner.Policy != api.OwnerNever && !r.Device() && !r.ReadOnly
}

// Stage is the staging of one volume on this node.
type Stage struct {
	PluginID, ExternalID string
	Path                 csiplugins.Place
	// Done is set when the driver has confirmed the staging; until then the volume may or may not be staged.
	Done bool
	// Seen is what was mounted at the staging path; nil when the driver mounts nothing there.
	Seen   *mounts.Entry `json:",omitempty"`
	BootID string
	// AllocID is whose use it was staged for, AccessMode and Options how.
	AllocID    string            `json:",omitempty"`
	AccessMode api.AccessMode    `json:",omitempty"`
	Options    *api.MountOptions `json:",omitempty"`
	// Helpers are the scopes of the processes that serve the mount and outlive the plugin.
	Helpers []string `json:",omitempty"`
	Failing
}

func stageKey(pluginID, externalID string) string {
	return StagePrefix + csiplugins.VolumeKey(pluginID, externalID)
}

// Key is the key of the record.
func (st *Stage) Key() string { return stageKey(st.PluginID, st.ExternalID) }
