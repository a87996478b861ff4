package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// Journal is the durable list of rows and stages. What was read from it is never changed: copy, change, put.
type Journal struct {
	bucket csiplugins.Bucket
	mu     sync.Mutex // never held while the disk is waited for
	byKey  map[string]*Row
	// byVolume has the same rows, by volume and key.
	byVolume map[string]map[string]*Row
	stages   map[string]*Stage
	log      hclog.Logger
	// writes are those that are under way, or wait for that, by key.
	writes map[string]*writes
	// removals are the keys of records that must be removed from disk still.
	removals map[string]bool
}

// Open reads the records. One that cannot be read is removed, and so is one whose path current refuses: the mount
// table shows what is mounted for it.
func Open(b csiplugins.Bucket, current func(boot string, at csiplugins.Place) error, log hclog.Logger) (*Journal, error) {
	raw, err := b.All()
	if err != nil {
		return nil, fmt.Errorf("read volume journal: %w", err)
	}
	j := &Journal{
		bucket: b, log: log, writes: map[string]*writes{}, byKey: map[string]*Row{}, byVolume: map[string]map[string]*Row{}, stages: map[string]*Stage{},
		removals: map[string]bool{},
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
func (j *Journal) read(key string, value []byte, current func(boot string, at csiplugins.Place) error) error {
	if strings.HasPrefix(key, StagePrefix) {
		st := new(Stage)
		err := decode(value, st, func() string { return st.Key() }, key)
		if err == nil {
			err = current(st.BootID, st.Path)
		}
		if err == nil {
			j.stages[key] = st
		}
		return err
	}
	r := new(Row)
	err := decode(value, r, func() string { return r.Key() }, key)
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
func (j *Journal) keep(r *Row) {
	r.ID, r.Vol = "", ""
	r.ID, r.Vol = r.Key(), r.Volume()
	j.drop(r.ID)
	j.byKey[r.ID] = r
	if j.byVolume[r.Vol] == nil {
		j.byVolume[r.Vol] = map[string]*Row{}
	}
	j.byVolume[r.Vol][r.ID] = r
}

// drop forgets the row of a key. The caller holds mu, or is the only user of the journal.
func (j *Journal) drop(key string) {
	old := j.byKey[key]
	if old == nil {
		return
	}
	delete(j.byKey, key)
	if delete(j.byVolume[old.Vol], key); len(j.byVolume[old.Vol]) == 0 {
		delete(j.byVolume, old.Vol)
	}
}

// Row returns the row of a key, nil when there is none.
func (j *Journal) Row(key string) *Row {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byKey[key]
}

// Rows returns all rows in the order of their keys.
func (j *Journal) Rows() []*Row { return j.Find(func(*Row) bool { return true }) }

// OfAlloc returns the rows of an allocation.
func (j *Journal) OfAlloc(allocID string) []*Row {
	return j.Find(func(r *Row) bool { return r.AllocID == allocID })
}

// Find lists the rows that are wanted in the order of their keys.
func (j *Journal) Find(wanted func(*Row) bool) []*Row {
	j.mu.Lock()
	defer j.mu.Unlock()
	return inOrder(j.byKey, wanted)
}

func inOrder(rows map[string]*Row, wanted func(*Row) bool) (out []*Row) {
	for _, r := range rows {
		if wanted(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Row) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Users returns the other rows of a volume for which something may be published.
func (j *Journal) Users(of *Row) []*Row {
	key, volume := of.Key(), of.Volume()
	j.mu.Lock()
	defer j.mu.Unlock()
	return inOrder(j.byVolume[volume], func(r *Row) bool { return r.ID != key && r.Touched() && r.State != Released })
}

// Put makes the row durable before it becomes visible. It abandons a write that the disk does not complete in time.
func (j *Journal) Put(ctx context.Context, r Row) (*Row, error) {
	raw, err := json.Marshal(&r)
	if err == nil {
		err = j.write(ctx.Done(), r.Key(), raw, func() { j.keepPut(&r) }, j.giveUp)
	}
	if err != nil {
		return nil, fmt.Errorf("write journal of volume %s: %w", r.VolumeID, cmp.Or(ctx.Err(), passing(err)))
	}
	return &r, nil
}

// keepPut makes the row that is on disk the one of its key. The caller holds mu.
func (j *Journal) keepPut(r *Row) {
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

// Note puts a row whose record may follow later: an unmount does not need the record to continue. A crash before
// leaves the older record, and everything is unmounted again.
func (j *Journal) Note(r Row) *Row {
	raw, err := json.Marshal(&r)
	if err == nil {
		err = j.write(nil, r.Key(), raw, func() { j.keepPut(&r) }, func(*write) { j.keep(&r) })
	}
	if err != nil {
		j.log.Error("write volume journal: the record follows", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
	}
	return &r
}

// Remove forgets a record. One that cannot be removed from disk is kept in removals: see [Journal.RetryRemovals].
func (j *Journal) Remove(key string) {
	drop := func() {
		j.drop(key)
		delete(j.stages, key)
	}
	if err := j.write(nil, key, nil, drop, func(*write) { drop(); j.removals[key] = true }); err != nil {
		j.log.Error("remove record of volume journal: it is tried again", "key", key, "error", err)
	}
}

// StageOf returns the staging of a volume, nil when there is none.
func (j *Journal) StageOf(pluginID, externalID string) *Stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stages[stageKey(pluginID, externalID)]
}

// AllStages returns all stagings.
func (j *Journal) AllStages() []*Stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]*Stage, 0, len(j.stages))
	for _, st := range j.stages {
		out = append(out, st)
	}
	return out
}

// PutStage makes the staging durable as Put does rows.
func (j *Journal) PutStage(ctx context.Context, st Stage) error {
	raw, err := json.Marshal(&st)
	if err == nil {
		err = j.write(ctx.Done(), st.Key(), raw, func() { j.keepStage(&st) }, j.giveUp)
	}
	if err != nil {
		return fmt.Errorf("write journal of staged volume: %w", cmp.Or(ctx.Err(), passing(err)))
	}
	return nil
}

// keepStage makes the staging that is on disk the one of its key. The caller holds mu.
func (j *Journal) keepStage(st *Stage) {
	j.stages[st.Key()] = st
}

// NoteStage puts a staging whose record may follow later, as Note does with rows.
func (j *Journal) NoteStage(st Stage) *Stage {
	raw, err := json.Marshal(&st)
	if err == nil {
		err = j.write(nil, st.Key(), raw, func() { j.keepStage(&st) }, func(*write) { j.stages[st.Key()] = &st })
	}
	if err != nil {
		j.log.Error("write volume journal: the record follows", "plugin_id", st.PluginID, "path", st.Path.Host, "error", err)
	}
	return &st
}

// Stage returns the staging of a key, nil when there is none.
func (j *Journal) Stage(key string) *Stage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stages[key]
}
