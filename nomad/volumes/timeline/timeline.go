package timeline

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
)

// Call is the driver's call whose result a command records. The zero value is no call.
type Call struct {
	Took time.Duration
	// Error is why it failed; empty when it succeeded.
	Error string
}

// Objects of entries.
const (
	claimed        = "claim"
	attach         = "attach"
	detach         = "detach"
	create         = "create"
	remove         = "delete"
	expand         = "expand"
	snapshot       = "snapshot"
	removeSnapshot = "delete snapshot"
	registered     = "volume"
)

// Results of entries.
const (
	begun  = "begun"
	done   = "done"
	failed = "failed"
)

// Moment is the raft entry that made the changes.
type Moment struct {
	// Now is in Unix nanoseconds.
	Now   int64
	Index uint64
	Call  Call
}

// since is how long a state has lasted.
func (m Moment) since(began int64) time.Duration {
	if began == 0 || m.Now < began {
		return 0
	}
	return time.Duration(m.Now - began)
}

// OfClaim returns the entry of a changed claim; before is nil for a new one, after for one that ended. release is the
// volume's record of its end, which is nil where there is none. It returns nil for changes that are not recorded.
func OfClaim(before, after *api.VolumeClaim, release *api.VolumeRelease, m Moment) *api.VolumeEvent {
	c := cmp.Or(after, before)
	e := &api.VolumeEvent{What: claimed, AllocID: c.AllocID, JobID: c.JobID, NodeID: c.NodeID}
	switch {
	case after == nil:
		e.Result, e.After, e.Text = "ended", m.since(before.Since), proof(before.Proof, before.By, before.Reason)
		if release != nil {
			e.Text = proof(release.Proof, release.By, release.Reason)
		}
	case before == nil || before.State != after.State:
		e.Result, e.Text = string(after.State), cmp.Or(after.LastError, proof(after.Proof, after.By, after.Reason))
		if after.State == api.ClaimWaiting {
			e.Text = "behind allocation " + after.Predecessor
		}
		if before != nil {
			e.After = m.since(before.Since)
		}
	case after.LastError != "" && before.LastError != after.LastError:
		e.Result, e.Text = string(after.State), after.LastError
	case before.Presumed && !after.Presumed:
		e.Result, e.Text = string(after.State), "the node has confirmed that nothing is mounted"
	default:
		return nil
	}
	return e
}

func proof(proof, by, reason string) string {
	if proof == "" {
		return ""
	}
	text := proof + " by " + by
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// OfAttachment returns the entries of a changed attachment.
func OfAttachment(before, after *api.VolumeAttachment, m Moment) (all []*api.VolumeEvent) {
	a := cmp.Or(after, before)
	add := func(what, result, text string, after, took time.Duration) {
		all = append(all, &api.VolumeEvent{What: what, Result: result, Text: text, NodeID: a.NodeID, After: after, Took: took})
	}
	leaves := before != nil && (before.State == api.AttachmentUnpublishing || before.State == api.AttachmentWrittenOff)
	begins := after != nil && after.State == api.AttachmentPublishing
	switch {
	case before == nil && begins:
		add(attach, begun, "", 0, 0)
		return all
	case after == nil || leaves && begins: // one that leaves may be wanted again in the same entry
		text := ""
		if before != nil && before.NotCalled {
			text = "the plugin does not attach volumes"
		}
		if before != nil {
			add(detach, done, text, m.since(before.Since), m.Call.Took)
		}
		if begins {
			add(attach, begun, "", 0, 0)
		}
		return all
	}
	what := attach
	if after.State == api.AttachmentUnpublishing || after.State == api.AttachmentWrittenOff {
		what = detach
	}
	switch changed := before == nil || before.State != after.State; {
	case changed && after.State == api.AttachmentPublished:
		text := ""
		if after.NotCalled {
			text = "the plugin does not attach volumes"
		}
		took := time.Duration(0)
		if before != nil {
			took = m.since(before.Since)
		}
		add(attach, done, text, took, m.Call.Took)
	case changed && after.State == api.AttachmentWrittenOff:
		add(detach, "written off", "an operator asserts that it is detached; the driver is still asked", 0, 0)
	case changed:
		add(what, begun, proofOnly(after.Proof), 0, 0)
	case after.LastError != "" && (before.LastError != after.LastError || before.Attempts != after.Attempts):
		result := failed
		if after.Refused != 0 {
			result = "refused"
		}
		add(what, result, after.LastError, m.since(after.Since), m.Call.Took)
	}
	return all
}

func proofOnly(proof string) string {
	if proof == "" {
		return ""
	}
	return "unused on the node: " + proof
}

// operations are the objects of entries by the state of a volume.
var operations = map[api.VolumeState]string{api.VolumeCreating: create, api.VolumeDeleting: remove, api.VolumeExpanding: expand}

// OfVolume returns the entries of a changed volume; before is nil for a new one. history are its entries so far.
func OfVolume(before, after *api.Volume, history []*api.VolumeEvent, m Moment) (all []*api.VolumeEvent) {
	add := func(what, result, text string, took time.Duration) {
		e := &api.VolumeEvent{What: what, Result: result, Text: text, Took: took}
		if result != begun {
			e.After = began(history, what, m)
		}
		all = append(all, e)
	}
	now := after.Provision
	if before == nil {
		if what := operations[now.State]; what != "" {
			add(what, begun, "", 0)
		} else {
			add(registered, "registered", "", 0)
		}
		return all
	}
	was := before.Provision
	if was.State == now.State {
		if what := operations[now.State]; what != "" && now.LastError != "" && now.LastError != was.LastError {
			add(what, failed, now.LastError, m.Call.Took)
		}
		return all
	}
	if what := operations[was.State]; what != "" {
		switch {
		case now.State == api.VolumeFailed || now.LastError != "" || was.State == api.VolumeDeleting:
			add(what, failed, now.LastError, m.Call.Took)
		case operations[now.State] == "":
			add(what, done, "", m.Call.Took)
		}
	}
	if what := operations[now.State]; what != "" {
		add(what, begun, "", 0)
	}
	return all
}

// OfSnapshot returns the entry of a changed snapshot intent; nil for changes that are not recorded.
func OfSnapshot(before, after *api.SnapshotIntent, m Moment) *api.VolumeEvent {
	i := cmp.Or(after, before)
	what := snapshot
	if i.Delete {
		what = removeSnapshot
	}
	name := "snapshot " + i.Name
	switch {
	case before == nil:
		return &api.VolumeEvent{What: what, Result: begun, Text: name}
	case after == nil && m.Call.Error != "":
		return &api.VolumeEvent{What: what, Result: failed, Text: name + ": " + m.Call.Error, After: m.since(before.Since), Took: m.Call.Took}
	case after == nil:
		return &api.VolumeEvent{What: what, Result: done, Text: name, After: m.since(before.Since), Took: m.Call.Took}
	case after.LastError != "" && before.LastError != after.LastError:
		return &api.VolumeEvent{What: what, Result: failed, Text: name + ": " + after.LastError, Took: m.Call.Took}
	}
	return nil
}

// began is how long ago an operation began, as far as the history has that.
func began(history []*api.VolumeEvent, what string, m Moment) time.Duration {
	for i := len(history) - 1; i >= 0; i-- {
		if e := history[i]; e.What == what && e.Result == begun {
			return m.since(e.Time)
		}
	}
	return 0
}

// Append returns the history with more entries, which it completes and bounds. It does not change the history.
func Append(history, more []*api.VolumeEvent, m Moment) []*api.VolumeEvent {
	next := make([]*api.VolumeEvent, 0, min(len(history)+len(more), api.VolumeEventsMax+1))
	kept := min(len(history), max(0, api.VolumeEventsMax-len(more)))
	next = append(next, history[len(history)-kept:]...)
	for _, e := range more {
		e.Time, e.Index = m.Now, m.Index
		e.Text, e.JobID = clip(e.Text, api.VolumeEventTextMax), clip(e.JobID, api.VolumeEventJobMax)
		if last := len(next) - 1; last >= 0 && same(next[last], e) {
			repeated := *e
			repeated.Count = max(next[last].Count, 1) + 1
			next[last] = &repeated
			continue
		}
		next = append(next, e)
	}
	return next[max(0, len(next)-api.VolumeEventsMax):]
}

// same reports whether two entries differ in times only.
func same(a, b *api.VolumeEvent) bool {
	return a.What == b.What && a.Result == b.Result && a.Text == b.Text && a.AllocID == b.AllocID && a.NodeID == b.NodeID && a.JobID == b.JobID
}

// clip cuts a text to a number of bytes, between characters. The rest of a longer text stays in no memory.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	size -= len("...")
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return strings.Clone(text[:size]) + "..."
}
