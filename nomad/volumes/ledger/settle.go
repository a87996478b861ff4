package ledger

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Rules are the decisions that the ledger writes down. The functions of this package use those of
// [Standard]; the simulation breaks them one by one.
type Rules struct {
	Settle func(claim.Book, claim.Moment) claim.Book
	Fits   func(*api.Volume, claim.Book, claim.Request, map[string]bool) claim.Answer
	Legal  func(from, to api.ClaimState) bool
}

// Standard are the rules of package claim.
func Standard() Rules { return Rules{Settle: claim.Settle, Fits: claim.Fits, Legal: claim.Legal} }

// Read collects the claims and attachments of one external volume.
func Read(tx *state.Txn, plugin, external string) claim.Book {
	claims, attachments := slices.Collect(tx.ClaimsByExternal(plugin, external)), slices.Collect(tx.AttachmentsOf(plugin, external))
	return claim.Book{
		Specs:       slices.Collect(tx.VolumesByExternal(plugin, external)),
		Claims:      claims,
		Attachments: attachments,
		Stale:       staleNodes(tx, claims, plugin, external),
		Moved:       movedNodes(tx, claims, attachments),
		Held:        Held(tx, plugin, external) != "",
		Holding:     func(c *api.VolumeClaim) claim.Holding { return holding(tx, c) },
	}
}

// movedNodes lists the nodes on which claims are about to use the volume and whose plugin reports another id now than
// the one that it was attached by: the agent runs on another machine.
func movedNodes(tx *state.Txn, claims []*api.VolumeClaim, attachments []*api.VolumeAttachment) map[string]bool {
	var begins, moved map[string]bool
	for _, c := range claims {
		if c.State == api.ClaimWaiting || c.State == api.ClaimTaken {
			begins = with(begins, c.NodeID)
		}
	}
	if begins == nil {
		return nil
	}
	for _, a := range attachments {
		if a.ProviderNodeID == "" || a.NotCalled || !begins[a.NodeID] {
			continue
		}
		if now := ProviderNode(tx, a.PluginID, a.NodeID); now != "" && now != a.ProviderNodeID {
			moved = with(moved, a.NodeID)
		}
	}
	return moved
}

// with adds to a set, which is made when it gets its first member.
func with(set map[string]bool, member string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[member] = true
	return set
}

// settle writes what follows by itself for one external volume.
func (r Rules) settle(tx *state.Txn, plugin, external string) {
	before := Read(tx, plugin, external)
	after := r.Settle(before, claim.Moment{Index: tx.Index(), Now: tx.Now().UnixNano()})
	if len(after.Claims) < len(before.Claims) {
		left := make(map[Hold]bool, len(after.Claims))
		for _, c := range after.Claims {
			left[HoldOf(c).anywhere()] = true
		}
		for _, c := range before.Claims {
			if !left[HoldOf(c).anywhere()] {
				tx.DeleteClaim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
				remember(tx, c)
			}
		}
	}
	for _, c := range fresh(before.Claims, after.Claims) {
		tx.PutClaim(c)
	}
	for _, a := range fresh(before.Attachments, after.Attachments) {
		if a.CreateIndex == 0 {
			a = intent(tx, a, after.Claims)
		}
		tx.PutAttachment(a)
	}
	if len(after.Claims)+len(after.Attachments) == 0 {
		forgetFormer(tx, plugin, external)
	}
}

// remember notes on the volume how a claim ended that had been mounted.
func remember(tx *state.Txn, c *api.VolumeClaim) {
	old := SpecOf(tx, c)
	if old == nil || c.Proof == "" {
		return
	}
	release(tx, old, &api.VolumeRelease{AllocID: c.AllocID, NodeID: c.NodeID, Proof: c.Proof, By: c.By, Reason: c.Reason})
}

// release adds to what a volume remembers of ended claims.
func release(tx *state.Txn, old *api.Volume, r *api.VolumeRelease) {
	v := *old
	r.At = tx.Now().UnixNano()
	kept := v.Releases[max(0, len(v.Releases)+1-api.ReleasesMax):]
	v.Releases = append(slices.Clone(kept), r)
	tx.PutVolume(&v)
}

// fresh are the rows of after that before has not, in their order. Mostly those that stay have their place.
func fresh[T any](before, after []*T) (rows []*T) {
	var known map[*T]bool
	for i, r := range after {
		if i < len(before) && before[i] == r {
			continue
		}
		if known == nil {
			known = make(map[*T]bool, len(before))
			for _, b := range before {
				known[b] = true
			}
		}
		if !known[r] {
			rows = append(rows, r)
		}
	}
	return rows
}

// intent completes a new attachment with what the driver needs, now and to undo it. One without the driver's id of the
// node was never called. While no healthy controller reports that it attaches, that id comes with the entry before the
// call ([Prepare]), so that an attachment without a call needs no controller to undo.
func intent(tx *state.Txn, a *api.VolumeAttachment, claims []*api.VolumeClaim) *api.VolumeAttachment {
	next := *a
	for _, c := range claims {
		v := SpecOf(tx, c)
		if c.NodeID != a.NodeID || !claim.Live(c.State) || v == nil {
			continue
		}
		next.Context = v.DriverContext()
		next.ReadOnly = a.AccessMode.ReadOnly() && readerOnly(v) && canReadOnly(tx, a.PluginID)
		break
	}
	next.Provider = Owner(tx, a.PluginID)
	if controllers(tx, a.PluginID).Detach {
		next.ProviderNodeID = ProviderNode(tx, a.PluginID, a.NodeID)
	}
	if left := tx.WrittenOffTo(a.PluginID, a.ExternalID, a.NodeID); left != nil { // it may be attached already
		next.Called, next.ProviderNodeID = true, cmp.Or(next.ProviderNodeID, left.ProviderNodeID)
	}
	return &next
}

// readerOnly reports whether no user may ever write the volume by this spec, so that attaching it read-only blocks no
// later user.
func readerOnly(v *api.Volume) bool {
	return !slices.ContainsFunc(v.RequestedCapabilities, func(c *api.VolumeCapability) bool { return !c.AccessMode.ReadOnly() })
}
