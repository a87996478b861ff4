package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/timeline"
)

// TimelineKey is the timeline of a volume.
func TimelineKey(ns, id string) Key { return Key{TableTimelines, "id", rowKey(ns, id)} }

// Timeline returns what happened to a volume, or nil.
func (t *Txn) Timeline(ns, id string) *api.VolumeTimeline { return timelines.get(t, rowKey(ns, id)) }

// NoteCall adds the driver's call whose result the command records to the timelines: how long it took, and why it
// failed.
func (t *Txn) NoteCall(took time.Duration, failure string) {
	t.call = timeline.Call{Took: took, Error: failure}
}

// recordTimelines adds the changes of this transaction to the timelines of their volumes.
func (t *Txn) recordTimelines() {
	if t.mem.dirty&recorded() == 0 {
		return
	}
	r := recorder{tx: t, at: timeline.Moment{Now: t.now.UnixNano(), Index: t.mem.index, Call: t.call}, events: map[string]*volumeEvents{}}
	// Volumes come first: those that are deleted have no timeline any more.
	for _, c := range t.mem.changes {
		if c.Table == TableVolumes {
			r.volume(c)
		}
	}
	for _, c := range t.mem.changes {
		switch c.Table {
		case TableClaims:
			r.claim(c)
		case TableAttachments:
			r.attachment(c)
		case TableSnapshots:
			r.snapshot(c)
		}
	}
	keys := make([]string, 0, len(r.events))
	for k := range r.events {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if of := r.events[k]; len(of.more) > 0 {
			slices.SortStableFunc(of.more, order)
			timelines.put(t, &api.VolumeTimeline{Namespace: of.volume.Namespace, VolumeID: of.volume.ID, Events: timeline.Append(of.history, of.more, r.at)})
		}
	}
}

// order puts the entries of one raft entry into an order that does not depend on that of the writes: claims first, then
// attachments. Entries of one object keep theirs.
func order(a, b *api.VolumeEvent) int {
	if (a.AllocID == "") != (b.AllocID == "") {
		return strings.Compare(b.AllocID, a.AllocID)
	}
	return cmp.Or(strings.Compare(a.AllocID, b.AllocID), strings.Compare(a.NodeID, b.NodeID))
}

// recorded are the bits of the tables whose changes are recorded.
func recorded() uint64 {
	return 1<<volumes.number | 1<<claims.number | 1<<attachments.number | 1<<snapshots.number
}

type recorder struct {
	tx     *Txn
	at     timeline.Moment
	events map[string]*volumeEvents
}

// volumeEvents are the new entries of a volume; volume is nil when it does not exist.
type volumeEvents struct {
	volume  *api.Volume
	history []*api.VolumeEvent
	more    []*api.VolumeEvent
}

func (r *recorder) of(ns, id string) *volumeEvents {
	key := rowKey(ns, id)
	of := r.events[key]
	if of == nil {
		of = &volumeEvents{volume: r.tx.Volume(ns, id)}
		if l := r.tx.Timeline(ns, id); l != nil {
			of.history = l.Events
		}
		r.events[key] = of
	}
	return of
}

func (of *volumeEvents) add(events ...*api.VolumeEvent) {
	for _, e := range events {
		if of.volume != nil && e != nil {
			of.more = append(of.more, e)
		}
	}
}

func (r *recorder) volume(c Change) {
	before, _ := c.Before.(*api.Volume)
	after, _ := c.After.(*api.Volume)
	switch {
	case after != nil && before != nil && before.Provision.State == after.Provision.State && before.Provision.LastError == after.Provision.LastError:
	case after != nil:
		of := r.of(after.Namespace, after.ID)
		of.add(timeline.OfVolume(before, after, of.history, r.at)...)
	case before != nil:
		timelines.remove(r.tx, r.tx.Timeline(before.Namespace, before.ID))
	}
}

func (r *recorder) claim(c Change) {
	before, _ := c.Before.(*api.VolumeClaim)
	after, _ := c.After.(*api.VolumeClaim)
	row := cmp.Or(after, before)
	if row == nil {
		return
	}
	of := r.of(row.Namespace, row.VolumeID)
	if of.volume == nil || of.volume.PluginID != row.PluginID || of.volume.RemoteID() != row.ExternalID {
		return
	}
	of.add(timeline.OfClaim(before, after, released(of.volume, row, r.at.Now), r.at))
}

// released is what the volume records of a claim that ended now.
func released(v *api.Volume, c *api.VolumeClaim, now int64) *api.VolumeRelease {
	for _, l := range slices.Backward(v.Releases) {
		if l.At != now {
			break
		}
		if l.AllocID == c.AllocID && l.NodeID == c.NodeID {
			return l
		}
	}
	return nil
}

func (r *recorder) attachment(c Change) {
	before, _ := c.Before.(*api.VolumeAttachment)
	after, _ := c.After.(*api.VolumeAttachment)
	row := cmp.Or(after, before)
	if row == nil {
		return
	}
	specs := slices.Collect(r.tx.VolumesByExternal(row.PluginID, row.ExternalID))
	slices.SortFunc(specs, func(a, b *api.Volume) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ID, b.ID))
	})
	for _, v := range specs {
		if v.PluginID == row.PluginID && v.RemoteID() == row.ExternalID { // not one that only undoes an earlier creation
			r.of(v.Namespace, v.ID).add(timeline.OfAttachment(before, after, r.at)...)
		}
	}
}

func (r *recorder) snapshot(c Change) {
	before, _ := c.Before.(*api.SnapshotIntent)
	after, _ := c.After.(*api.SnapshotIntent)
	row := cmp.Or(after, before)
	if row == nil || row.VolumeID == "" {
		return
	}
	r.of(row.Namespace, row.VolumeID).add(timeline.OfSnapshot(before, after, r.at))
}
