package volumes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Prefixes of the keys of records.
const (
	rowPrefix   = "row/"
	stagePrefix = "stage/"
)

// rowState is where one allocation's use of one volume stands.
type rowState string

const (
	// rowClaiming has asked the servers; no driver was called.
	rowClaiming rowState = "claiming"
	// rowMounting may be published: the driver was, or is about to be, called.
	rowMounting rowState = "mounting"
	// rowMounted is published, and was seen in the mount table.
	rowMounted rowState = "mounted"
	// rowLeaving must be unpublished, and unstaged when it is the volume's last use.
	rowLeaving rowState = "leaving"
	// rowReleased has nothing on the node; the servers do not know yet.
	rowReleased rowState = "released"
)

// row is one allocation's use of one volume, with all that is needed to undo it. It holds no secrets.
type row struct {
	State     rowState
	AllocID   string
	Namespace string
	VolumeID  string
	// Use distinguishes the uses of one volume by one allocation; empty for the only one.
	Use        string `json:",omitempty"`
	PluginID   string
	ExternalID string
	Target     place
	Staging    place
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
	failing
	// Helpers are the scopes of the processes that serve the mount and outlive the plugin.
	Helpers []string `json:",omitempty"`

	// id and vol are the hashes that key and volume return. The journal sets them.
	id, vol string
}

// failing counts the failures of the plugin at something, as to take it down; FailingSince is when the first was.
type failing struct {
	Failures     int       `json:",omitempty"`
	FailingSince time.Time `json:",omitzero"`
}

// once adds a failure. A clock that was set back must not make anybody wait until it comes there again.
func (f failing) once() failing {
	if now := time.Now(); f.FailingSince.IsZero() || f.FailingSince.After(now) {
		f.FailingSince = now
	}
	f.Failures++
	return f
}

func rowKey(allocID, namespace, volumeID, use string) string {
	if use == "" {
		return rowPrefix + allocID + "/" + csiplugins.Hash(namespace, volumeID)
	}
	return rowPrefix + allocID + "/" + csiplugins.Hash(namespace, volumeID, use)
}

func (r *row) key() string {
	if r.id != "" {
		return r.id
	}
	return rowKey(r.AllocID, r.Namespace, r.VolumeID, r.Use)
}

// volume is the key of the volume as the driver knows it.
func (r *row) volume() string {
	if r.vol != "" {
		return r.vol
	}
	return csiplugins.VolumeKey(r.PluginID, r.ExternalID)
}

// touched reports whether the driver may have done something for the row.
func (r *row) touched() bool { return r.Target.Host != "" }

func (r *row) device() bool { return r.AttachmentMode == api.AttachmentBlock }

func (r *row) node(secrets map[string]string) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: r.ExternalID, StagingPath: r.Staging.Plugin, TargetPath: r.Target.Plugin,
		AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, MountOptions: r.MountOptions,
		ReadOnly: r.ReadOnly, Secrets: secrets, Context: r.Context, PublishContext: r.PublishContext,
		MountGroup: mountGroup(r),
	}
}

// stage is the staging of one volume on this node.
type stage struct {
	PluginID, ExternalID string
	Path                 place
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
	failing
}

func stageKey(pluginID, externalID string) string {
	return stagePrefix + csiplugins.VolumeKey(pluginID, externalID)
}

func (st *stage) key() string { return stageKey(st.PluginID, st.ExternalID) }

// journal is the durable list of rows and stages. What was read from it is never changed: copy, change, put.
type journal struct {
	bucket csiplugins.Bucket
	mu     sync.Mutex // never held while the disk is waited for
	byKey  map[string]*row
	// byVolume has the same rows, by volume and key.
	byVolume map[string]map[string]*row
	stages   map[string]*stage
	log      hclog.Logger
	// writes are those that are under way, or wait for that, by key.
	writes map[string]*writes
	// removals are the keys of records that must be removed from disk still.
	removals map[string]bool
}

// openJournal reads the records. One that cannot be read is removed, and so is one of this boot whose mount is below another
// root, because the state directory was renamed: what is mounted for it is an unrecorded mount.
func openJournal(b csiplugins.Bucket, root, bootID string, log hclog.Logger) (*journal, error) {
	raw, err := b.All()
	if err != nil {
		return nil, fmt.Errorf("read volume journal: %w", err)
	}
	j := &journal{
		bucket: b, log: log, writes: map[string]*writes{}, byKey: map[string]*row{}, byVolume: map[string]map[string]*row{}, stages: map[string]*stage{},
		removals: map[string]bool{},
	}
	current := func(boot string, at place) error {
		if boot == bootID && (isStaging(at.Host) || isTarget(at.Host)) && !within(at.Host, root) {
			return fault.New(fault.Conflict, "its path %s is outside of %s", at.Host, root)
		}
		return nil
	}
	for key, value := range raw {
		if err := j.read(key, value, current); err != nil {
			log.Error("a record of the volume journal is dropped: the mount table shows what is mounted", "key", key, "error", err)
			j.removals[key] = true
		}
	}
	return j, nil
}

// read adds a stored record. The journal is not shared yet.
func (j *journal) read(key string, value []byte, current func(boot string, at place) error) error {
	if strings.HasPrefix(key, stagePrefix) {
		st := new(stage)
		err := decode(value, st, func() string { return st.key() }, key)
		if err == nil {
			err = current(st.BootID, st.Path)
		}
		if err == nil {
			j.stages[key] = st
		}
		return err
	}
	r := new(row)
	err := decode(value, r, func() string { return r.key() }, key)
	if err == nil {
		err = current(r.BootID, r.Target)
	}
	if err == nil {
		j.keep(r)
	}
	return err
}

// decode reads a record and makes sure that it is the one of its key.
func decode(raw []byte, into any, keyOf func() string, key string) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	if keyOf() != key {
		return fault.New(fault.Internal, "its content does not match its key")
	}
	return nil
}

// keep makes the row the one of its key. The caller holds mu, or is the only user of the journal.
func (j *journal) keep(r *row) {
	r.id, r.vol = "", ""
	r.id, r.vol = r.key(), r.volume()
	j.drop(r.id)
	j.byKey[r.id] = r
	if j.byVolume[r.vol] == nil {
		j.byVolume[r.vol] = map[string]*row{}
	}
	j.byVolume[r.vol][r.id] = r
}

// drop forgets the row of a key. The caller holds mu, or is the only user of the journal.
func (j *journal) drop(key string) {
	old := j.byKey[key]
	if old == nil {
		return
	}
	delete(j.byKey, key)
	if delete(j.byVolume[old.vol], key); len(j.byVolume[old.vol]) == 0 {
		delete(j.byVolume, old.vol)
	}
}

func (j *journal) row(key string) *row {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byKey[key]
}

func (j *journal) rows() []*row { return j.find(func(*row) bool { return true }) }

func (j *journal) ofAlloc(allocID string) []*row {
	return j.find(func(r *row) bool { return r.AllocID == allocID })
}

// find lists the rows that are wanted in the order of their keys.
func (j *journal) find(wanted func(*row) bool) []*row {
	j.mu.Lock()
	defer j.mu.Unlock()
	return inOrder(j.byKey, wanted)
}

func inOrder(rows map[string]*row, wanted func(*row) bool) (out []*row) {
	for _, r := range rows {
		if wanted(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *row) int { return strings.Compare(a.id, b.id) })
	return out
}

// users are the other rows of a volume for which something may be published.
func (j *journal) users(of *row) []*row {
	key, volume := of.key(), of.volume()
	j.mu.Lock()
	defer j.mu.Unlock()
	return inOrder(j.byVolume[volume], func(r *row) bool { return r.id != key && r.touched() && r.State != rowReleased })
}

// put makes the row durable before it becomes visible. It abandons a write that the disk does not complete in time.
func (j *journal) put(ctx context.Context, r row) (*row, error) {
	raw, err := json.Marshal(&r)
	if err == nil {
		err = j.write(ctx.Done(), r.key(), raw, func() { j.keepPut(&r) }, j.giveUp)
	}
	if err != nil {
		return nil, fmt.Errorf("write journal of volume %s: %w", r.VolumeID, cmp.Or(ctx.Err(), passing(err)))
	}
	return &r, nil
}

// keepPut makes the row that is on disk the one of its key. The caller holds mu.
func (j *journal) keepPut(r *row) {
	j.keep(r)
}

// passing is the failure of a write as one that may pass: a full disk is no reason to fail an allocation. What the
// store refuses for itself does not pass.
func passing(err error) error {
	if errors.Is(err, fault.Invalid) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err)
}

// note puts a row whose record may follow later: an unmount does not need the record to continue. A crash before
// leaves the older record, and everything is unmounted again.
func (j *journal) note(r row) *row {
	raw, err := json.Marshal(&r)
	if err == nil {
		err = j.write(nil, r.key(), raw, func() { j.keepPut(&r) }, func(*write) { j.keep(&r) })
	}
	if err != nil {
		j.log.Error("write volume journal: the record follows", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
	}
	return &r
}

// remove forgets a record. One that cannot be removed from disk is removals: see [journal.retryRemovals].
func (j *journal) remove(key string) {
	drop := func() {
		j.drop(key)
		delete(j.stages, key)
	}
	if err := j.write(nil, key, nil, drop, func(*write) { drop(); j.removals[key] = true }); err != nil {
		j.log.Error("remove record of volume journal: it is tried again", "key", key, "error", err)
	}
}

func (j *journal) stageOf(pluginID, externalID string) *stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stages[stageKey(pluginID, externalID)]
}

func (j *journal) allStages() []*stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]*stage, 0, len(j.stages))
	for _, st := range j.stages {
		out = append(out, st)
	}
	return out
}

// putStage makes the staging durable as put does rows.
func (j *journal) putStage(ctx context.Context, st stage) error {
	raw, err := json.Marshal(&st)
	if err == nil {
		err = j.write(ctx.Done(), st.key(), raw, func() { j.keepStage(&st) }, j.giveUp)
	}
	if err != nil {
		return fmt.Errorf("write journal of staged volume: %w", cmp.Or(ctx.Err(), passing(err)))
	}
	return nil
}

// keepStage makes the staging that is on disk the one of its key. The caller holds mu.
func (j *journal) keepStage(st *stage) {
	j.stages[st.key()] = st
}

// noteStage puts a staging whose record may follow later, as note does with rows.
func (j *journal) noteStage(st stage) *stage {
	raw, err := json.Marshal(&st)
	if err == nil {
		err = j.write(nil, st.key(), raw, func() { j.keepStage(&st) }, func(*write) { j.stages[st.key()] = &st })
	}
	if err != nil {
		j.log.Error("write volume journal: the record follows", "plugin_id", st.PluginID, "path", st.Path.Host, "error", err)
	}
	return &st
}

// stage returns the staging of a key, nil when there is none.
func (j *journal) stage(key string) *stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stages[key]
}
