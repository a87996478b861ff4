package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// confirmSettles is for how long after a confirmation no other host gets one for the same object: until then the
// first one may begin its call. A quarter more than what hosts count, for clocks that run unlike.
const confirmSettles = api.ConfirmTerm * 5 / 4

// confirmBegin is how often a server that was elected and has not begun its term looks whether it has.
const confirmBegin = 10 * time.Millisecond

// confirmations records which hosts may be about to call a driver, so that the calls of an object keep their order
// over all hosts. Confirmations by an earlier leader are not known: objects from before the term wait until those have
// expired.
type confirmations struct {
	mu sync.Mutex
	// given is nil while this server does not lead.
	given map[confirmed]confirmation
	// swept is when expired confirmations were removed last.
	swept time.Time
	// began is when the term did, index the state's then.
	began time.Time
	index uint64
}

// confirmed is the object of an intent: an external volume, or what is made or deleted by a name.
type confirmed struct{ plugin, external, creation, snapshot string }

type confirmation struct {
	node string
	at   time.Time
}

// Run confirms intents for a term of this server as leader, which begins when the state has all of earlier terms.
func (s *Service) Run(term context.Context) error {
	s.confirms.set(map[confirmed]confirmation{}, s.state.Read().Index())
	<-term.Done()
	s.confirms.set(nil, 0)
	return term.Err()
}

func (c *confirmations) set(given map[confirmed]confirmation, index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given, c.began, c.index = given, time.Now(), index
}

// ConfirmIntent confirms to the host of a controller, just before it calls the driver, that the intent behind the call
// is the newest of its object. It returns fault.Conflict when the intent was completed or replaced. The confirmation
// is valid for [api.ConfirmTerm] after the request. That keeps the order of calls over all hosts of a plugin, and
// keeps those of deposed leaders out.
func (s *Service) ConfirmIntent(ctx context.Context, r *api.VolumeIntentRequest) (*api.Empty, error) {
	for {
		if err := s.raft.VerifyLeader(ctx); err != nil {
			return nil, fmt.Errorf("confirm intent %d: %w", r.Fence, err)
		}
		wait, err := s.confirms.give(r, s.state.Read)
		if err != nil || wait <= 0 {
			return &api.Empty{}, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "another host may still begin a call for %q: %w", r.ExternalID, ctx.Err())
		}
	}
}

// give confirms the intent, or returns how long another host may still act on an earlier confirmation. The state is
// read under the lock: previous confirmations are recorded by then, and what replaced them is in the state.
func (c *confirmations) give(r *api.VolumeIntentRequest, read func() *state.Txn) (wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given == nil {
		return confirmBegin, nil
	}
	now := time.Now()
	object, since := intended(read(), r)
	if object == (confirmed{}) {
		return 0, fault.New(fault.Conflict, "intent %d of plugin %q for %q has ended or was replaced", r.Fence, r.PluginID, r.ExternalID)
	}
	if now.Sub(c.swept) >= confirmSettles {
		maps.DeleteFunc(c.given, func(_ confirmed, g confirmation) bool { return now.Sub(g.at) >= confirmSettles })
		c.swept = now
	}
	last := c.given[object]
	if last.node == "" && since <= c.index {
		last.at = c.began
	}
	if wait = confirmSettles - now.Sub(last.at); wait > 0 && last.node != r.NodeID {
		return wait, nil
	}
	c.given[object] = confirmation{r.NodeID, now}
	return 0, nil
}

// intended returns the object of the row that waits for the reply to the intent, and the index at which the row came;
// none when there is no such row. The index of the intent alone names no row: one entry may intend several calls.
func intended(tx *state.Txn, r *api.VolumeIntentRequest) (object confirmed, since uint64) {
	object = confirmed{plugin: r.PluginID, external: r.ExternalID}
	for _, a := range slices.AppendSeq(slices.Collect(tx.AttachmentsOf(r.PluginID, r.ExternalID)), tx.WrittenOffOf(r.PluginID, r.ExternalID)) {
		if a.Fence == r.Fence && attaches(a, r) {
			return object, a.CreateIndex
		}
	}
	for i := range tx.SnapshotIntents() {
		if i.Fence() == r.Fence && i.PluginID == r.PluginID && snapshots(i, r) {
			if i.Delete {
				object.snapshot = i.Name
			}
			return object, i.CreateIndex
		}
	}
	for v := range tx.VolumesByPlugin(r.PluginID) {
		if v.Provision.Intent == r.Fence && provisions(v, r) {
			if r.ExternalID == "" { // its id is not known: the driver is asked by its name
				object.creation = commands.CreateRequest(v).Name
			}
			return object, v.CreateIndex
		}
	}
	return confirmed{}, 0
}

// asks reports whether the host is about to make the call for the part; a request without these fields may be.
func asks(r *api.VolumeIntentRequest, call api.IntentCall, part string) bool {
	return r.Call == "" || r.Call == call && r.Part == part
}

func attaches(a *api.VolumeAttachment, r *api.VolumeIntentRequest) bool {
	//exhaustive:enforce
	switch a.State {
	case api.AttachmentPublished:
	case api.AttachmentPublishing:
		return asks(r, api.CallAttach, a.ProviderNodeID)
	case api.AttachmentUnpublishing, api.AttachmentWrittenOff:
		return asks(r, api.CallDetach, a.ProviderNodeID)
	}
	return false
}

func snapshots(i *api.SnapshotIntent, r *api.VolumeIntentRequest) bool {
	if i.Delete {
		return r.ExternalID == "" && asks(r, api.CallSnapshotDelete, i.Name)
	}
	return r.ExternalID == i.ExternalID && asks(r, api.CallSnapshot, i.Name)
}

func provisions(v *api.Volume, r *api.VolumeIntentRequest) bool {
	undoes := v.Provision.State == api.VolumeDeleting || v.Provision.State == api.VolumeCreating
	switch doomed := commands.Doomed(v); {
	case v.Provision.State == api.VolumeExpanding:
		return r.ExternalID == v.RemoteID() && asks(r, api.CallExpand, "")
	case undoes && doomed != nil:
		return r.ExternalID == doomed.RemoteID() && asks(r, api.CallDelete, "")
	}
	return undoes && r.ExternalID == "" && asks(r, api.CallCreate, commands.CreateRequest(v).Name)
}
