package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

const (
	// drainWaitsAfter is how long a drain waits for volumes before it reports that. drainWaitsEvery is the minimum time
	// between two reports.
	drainWaitsAfter = 10 * time.Second
	drainWaitsEvery = time.Minute
	// drainWaitsShown bounds how many volumes are named.
	drainWaitsShown = 3
	// causeMax bounds, in characters, what is shown of an error.
	causeMax = 200
)

// drainWaits records since when draining nodes wait for volumes, and what was reported of that.
type drainWaits map[string]*drainWait

type drainWait struct {
	since, toldAt time.Time
	text          string
}

// keep forgets the nodes that do not drain any more.
func (w drainWaits) keep(draining map[string]bool) {
	maps.DeleteFunc(w, func(id string, _ *drainWait) bool { return !draining[id] })
}

// news returns what to report now of what the drain waits for, and when there may be more.
func (w drainWaits) news(id string, left []string, now time.Time) (text string, again time.Time) {
	if len(left) == 0 {
		delete(w, id)
		return "", time.Time{}
	}
	d := w[id]
	if d == nil {
		d = &drainWait{since: now}
		w[id] = d
	}
	due := d.since.Add(drainWaitsAfter)
	if !d.toldAt.IsZero() {
		due = d.toldAt.Add(drainWaitsEvery)
	}
	text = strings.Join(left[:min(len(left), drainWaitsShown)], "; ")
	if more := len(left) - drainWaitsShown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	switch {
	case now.Before(due):
		return "", due
	case text == d.text:
		return "", now.Add(drainWaitsEvery)
	}
	return text, now.Add(drainWaitsEvery)
}

func (w drainWaits) reported(id, text string, now time.Time) {
	w[id].text, w[id].toldAt = text, now
}

// volumesLeft names, in order, what the node still has of volumes whose users ended there: mounts, storage
// that is attached (the calls that detach it may go through the node's own plugin), and, when the node sends
// heartbeats, mounts of abandoned claims.
func volumesLeft(tx *state.Txn, n *api.Node) (list []string) {
	kept := map[[2]string]bool{}
	for c := range tx.ClaimsByNode(n.ID) {
		switch a := tx.Alloc(c.AllocID); {
		case c.State == api.ClaimWaiting || c.State == api.ClaimUnmounted:
		case a != nil && !a.ClientTerminal() && !(a.ServerTerminal() && a.ClientStatus == ""):
			kept[[2]string{c.PluginID, c.ExternalID}] = true
		default:
			list = append(list, fmt.Sprintf("volume %q is mounted for allocation %s%s (%s)",
				c.VolumeID, c.AllocID, because(c.LastError), ledger.Remedy(tx, c)))
		}
	}
	for a := range tx.AttachmentsByNode(n.ID) {
		if !kept[[2]string{a.PluginID, a.ExternalID}] {
			list = append(list, fmt.Sprintf("external volume %q of plugin %q is attached%s (nomad volume attachments -node %s)",
				a.ExternalID, a.PluginID, because(a.LastError), n.ID))
		}
	}
	if !lost(n.Status) {
		for _, m := range n.StaleMounts {
			list = append(list, fmt.Sprintf("volume %q is mounted for allocation %s, which was abandoned%s (nomad volume attachments -node %s)",
				m.VolumeID, m.AllocID, because(m.LastError), n.ID))
		}
	}
	slices.Sort(list)
	return list
}

// because is the first line of an error, if there is one, as the end of a sentence.
func because(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if cut := []rune(line); len(cut) > causeMax {
		line = string(cut[:causeMax]) + "..."
	}
	if line != "" {
		return ": " + line
	}
	return ""
}
