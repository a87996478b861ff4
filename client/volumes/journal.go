package volumes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
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
	// rowLeaving must be unpublished, and unstaged when nobody else uses the volume.
	rowLeaving rowState = "leaving"
	// rowReleased has nothing on the node; the servers do not know yet.
	rowReleased rowState = "released"
)

// row is one allocation's use of one volume, with all that is needed to undo it. It holds no secrets.
type row struct {
	State      rowState
	AllocID    string
	Namespace  string
	VolumeID   string
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
	// Lease is for how long the volume may be used after the last answered heartbeat; 0 means for ever.
	Lease time.Duration `json:",omitempty"`
	// OnMountDead is the volume's policy for a mount that stops answering.
	OnMountDead string `json:",omitempty"`
	// Stale is set while running tasks still have the mount of before a republish.
	Stale bool `json:",omitempty"`
	// Told is the last failure that the servers know of.
	Told string `json:",omitempty"`

	// id and vol are what key and volume answer, set by the journal: they are hashes.
	id, vol string
}

func rowKey(allocID, namespace, volumeID string) string {
	return "row/" + allocID + "/" + short(namespace, volumeID)
}

func (r *row) key() string {
	if r.id != "" {
		return r.id
	}
	return rowKey(r.AllocID, r.Namespace, r.VolumeID)
}

// volume is the key of the volume as the driver knows it.
func (r *row) volume() string {
	if r.vol != "" {
		return r.vol
	}
	return volumeKey(r.PluginID, r.ExternalID)
}

func volumeKey(pluginID, externalID string) string { return short(pluginID, externalID) }

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
	// Done is set when the driver said so; until then it may or may not be staged.
	Done bool
	// Seen is what was mounted at the staging path; nil when the driver mounts nothing there.
	Seen   *mounts.Entry `json:",omitempty"`
	BootID string
}

func (st *stage) key() string { return "stage/" + volumeKey(st.PluginID, st.ExternalID) }

// journal is the durable list of rows and stages. What was read from it is never changed: copy, change, put.
type journal struct {
	bucket Bucket
	mu     sync.Mutex
	byKey  map[string]*row
	stages map[string]*stage
}

func openJournal(b Bucket, log hclog.Logger) (*journal, error) {
	raw, err := b.All()
	if err != nil {
		return nil, fmt.Errorf("read volume journal: %w", err)
	}
	j := &journal{bucket: b, byKey: map[string]*row{}, stages: map[string]*stage{}}
	for key, value := range raw {
		var err error
		if strings.HasPrefix(key, "stage/") {
			st := new(stage)
			if err = json.Unmarshal(value, st); err == nil {
				j.stages[st.key()] = st
			}
		} else {
			r := new(row)
			if err = json.Unmarshal(value, r); err == nil {
				j.keep(r)
			}
		}
		if err != nil {
			log.Error("skip unreadable record of volume journal", "key", key, "error", err)
		}
	}
	return j, nil
}

// keep makes the row the one of its key. The caller holds mu, or nobody else knows the journal.
func (j *journal) keep(r *row) {
	r.id, r.vol = "", ""
	r.id, r.vol = r.key(), r.volume()
	j.byKey[r.id] = r
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
	var out []*row
	for _, r := range j.byKey {
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
	return j.find(func(r *row) bool {
		return r.id != key && r.vol == volume && r.touched() && r.State != rowReleased
	})
}

// put makes the row durable before anybody sees it.
func (j *journal) put(r row) (*row, error) {
	raw, err := json.Marshal(&r)
	if err == nil {
		err = j.bucket.Put(r.key(), raw)
	}
	if err != nil {
		return nil, fmt.Errorf("write journal of volume %s: %w", r.VolumeID, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keep(&r)
	return &r, nil
}

func (j *journal) remove(key string) error {
	if err := j.bucket.Delete(key); err != nil {
		return fmt.Errorf("write volume journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.byKey, key)
	return nil
}

func (j *journal) stageOf(pluginID, externalID string) *stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stages["stage/"+volumeKey(pluginID, externalID)]
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

func (j *journal) putStage(st stage) error {
	raw, err := json.Marshal(&st)
	if err == nil {
		err = j.bucket.Put(st.key(), raw)
	}
	if err != nil {
		return fmt.Errorf("write journal of staged volume: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stages[st.key()] = &st
	return nil
}

func (j *journal) removeStage(st *stage) error {
	if err := j.bucket.Delete(st.key()); err != nil {
		return fmt.Errorf("write volume journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.stages, st.key())
	return nil
}
