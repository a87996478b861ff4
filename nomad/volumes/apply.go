package volumes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Apply stores new volumes and the new specs of known ones.
func (c *Register) Apply(tx *state.Txn) (any, error) {
	for _, spec := range c.Specs {
		next, err := registered(tx, spec)
		if err != nil {
			return nil, err
		}
		put(tx, next)
	}
	return nil, nil
}

func registered(tx *state.Txn, spec *api.VolumeSpec) (*api.Volume, error) {
	old := tx.Volume(spec.Namespace, spec.ID)
	if old != nil {
		switch old.Provision.State {
		case api.VolumeCreating, api.VolumeDeleting:
			return nil, fault.New(fault.Conflict, "volume %q is %s", spec.ID, old.Provision.State)
		case api.VolumeFailed:
		default:
			return merged(old, spec, slices.Collect(tx.ClaimsByVolume(spec.Namespace, spec.ID)))
		}
	}
	v, err := fresh(tx, spec)
	if err != nil {
		return nil, err
	}
	v.Provision = api.VolumeProvision{State: api.VolumeAvailable, ExternalID: spec.ExternalID}
	if spec.ExternalID == "" {
		v.Provision.ExternalID = spec.ID
	}
	if spec.RequestedTopologies != nil {
		v.Provision.Topologies = known(spec.RequestedTopologies.Required)
	}
	return v, nil
}

func fresh(tx *state.Txn, spec *api.VolumeSpec) (*api.Volume, error) {
	if tx.Namespace(spec.Namespace) == nil {
		return nil, fault.New(fault.Invalid, "volume %q: namespace %q does not exist", spec.ID, spec.Namespace)
	}
	return &api.Volume{VolumeSpec: *spec, CreateTime: tx.Now().UnixNano()}, nil
}

func put(tx *state.Txn, v *api.Volume) {
	v.ModifyTime = tx.Now().UnixNano()
	tx.PutVolume(v)
}

// Apply stores the intent to create a volume. The same intent once more changes nothing.
func (c *Intend) Apply(tx *state.Txn) (any, error) {
	spec := c.Spec
	old := tx.Volume(spec.Namespace, spec.ID)
	switch {
	case old == nil, old.Provision.State == api.VolumeFailed:
	case old.Provision.State == api.VolumeCreating && sameCreation(&old.VolumeSpec, spec):
		return old.Provision.Intent, nil
	default:
		return nil, fault.New(fault.Conflict, "volume %q is %s with other fields", spec.ID, old.Provision.State)
	}
	for other := range tx.VolumesByPlugin(spec.PluginID) {
		if other.Name == spec.Name && other.ExternalID == "" && (other.ID != spec.ID || other.Namespace != spec.Namespace) {
			return nil, fault.New(fault.Conflict, "volume %q: the name %q is that of volume %q in namespace %q, and the plugin would answer that volume",
				spec.ID, spec.Name, other.ID, other.Namespace)
		}
	}
	v, err := fresh(tx, spec)
	if err != nil {
		return nil, err
	}
	v.Provision = api.VolumeProvision{State: api.VolumeCreating, Intent: tx.Index()}
	put(tx, v)
	return v.Provision.Intent, nil
}

// sameCreation compares what the driver is asked for: a call of unknown outcome must be repeated alike.
func sameCreation(a, b *api.VolumeSpec) bool {
	x, y := createRequest(&api.Volume{VolumeSpec: *a}), createRequest(&api.Volume{VolumeSpec: *b})
	bx, errX := x.MarshalMsg(nil)
	by, errY := y.MarshalMsg(nil)
	return errX == nil && errY == nil && a.PluginID == b.PluginID && len(bx) == len(by) &&
		maps.Equal(a.Parameters, b.Parameters) && x.Name == y.Name
}

// answered returns the volume that an answer is about. An answer to an intent that was replaced is refused.
func (a Answer) answered(tx *state.Txn, states ...api.VolumeState) (*api.Volume, error) {
	v := tx.Volume(a.Namespace, a.ID)
	if v == nil || v.Provision.Intent != a.Intent || !slices.Contains(states, v.Provision.State) {
		return nil, fault.New(fault.Conflict, "volume %q: intent %d was replaced meanwhile", a.ID, a.Intent)
	}
	next := *v
	next.Provision.LastError = a.Reason
	return &next, nil
}

// Apply stores what the driver created.
func (c *Provisioned) Apply(tx *state.Txn) (any, error) {
	v, err := c.Answer.answered(tx, api.VolumeCreating, api.VolumeDeleting)
	if err != nil {
		return nil, err
	}
	switch deleting := v.Provision.State == api.VolumeDeleting; {
	case c.Answer.Reason == "":
		v.Provision.ExternalID, v.Provision.CapacityBytes = c.ExternalID, c.CapacityBytes
		v.Provision.Context, v.Provision.Topologies = c.Context, known(c.Topologies)
		if !deleting {
			v.Provision.State = api.VolumeAvailable
		}
	case c.Answer.Final && deleting:
		tx.DeleteVolume(v.Namespace, v.ID) // nothing was made
		return nil, nil
	case c.Answer.Final:
		v.Provision.State = api.VolumeFailed
	}
	put(tx, v)
	return nil, nil
}

// Apply forgets the volume. Claims of allocations that are over stay and are given back.
func (c *Deregister) Apply(tx *state.Txn) (any, error) {
	v := tx.Volume(c.Namespace, c.ID)
	if v == nil {
		return nil, missing(c.Namespace, c.ID)
	}
	held := slices.Collect(tx.ClaimsByVolume(c.Namespace, c.ID))
	live := slices.DeleteFunc(slices.Clone(held), func(h *api.VolumeClaim) bool {
		a := tx.Alloc(h.AllocID)
		return a == nil || a.Terminal()
	})
	switch {
	case c.Force && len(live) > 0:
		return nil, fault.New(fault.Conflict, "volume in use: %q is held by %s, which still run", c.ID, holders(live))
	case !c.Force && len(held) > 0:
		return nil, fault.New(fault.Conflict, "volume in use: %q is held by %s", c.ID, holders(held))
	case !c.Force && v.Provision.State == api.VolumeCreating:
		return nil, fault.New(fault.Conflict, "volume %q is being created: delete it instead", c.ID)
	}
	if err := ledger.Reconcile(tx, held); err != nil {
		return nil, err
	}
	tx.DeleteVolume(c.Namespace, c.ID)
	return nil, nil
}

func holders(claims []*api.VolumeClaim) string {
	var names []string
	for _, c := range claims {
		names = append(names, fmt.Sprintf("allocation %s of job %q on node %s (%s: %s)", c.AllocID, c.JobID, c.NodeID, c.State, claim.Next(c)))
	}
	return strings.Join(names, ", ")
}

// Apply marks the volume as deleting, so that nobody can claim it any more.
func (c *BeginDelete) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, missing(c.Namespace, c.ID)
	}
	if old.Provision.State == api.VolumeDeleting {
		return old.Provision.Intent, nil
	}
	if old.Provision.State == api.VolumeFailed {
		tx.DeleteVolume(c.Namespace, c.ID) // nothing was made
		return uint64(0), nil
	}
	if old.Provision.ExternalID != "" {
		if err := unused(tx, old); err != nil {
			return nil, err
		}
	}
	v := *old
	v.Provision.State, v.Provision.Intent, v.Provision.LastError = api.VolumeDeleting, tx.Index(), ""
	if len(c.Secrets) > 0 {
		v.Secrets = maps.Clone(v.Secrets)
		if v.Secrets == nil {
			v.Secrets = map[string]string{}
		}
		maps.Copy(v.Secrets, c.Secrets)
	}
	put(tx, &v)
	return v.Provision.Intent, nil
}

// unused refuses while anybody has a hold on the external volume, also through another spec.
func unused(tx *state.Txn, v *api.Volume) error {
	if held := slices.Collect(tx.ClaimsByExternal(v.PluginID, v.RemoteID())); len(held) > 0 {
		return fault.New(fault.Conflict, "volume in use: %q is held by %s", v.ID, holders(held))
	}
	for a := range tx.AttachmentsOf(v.PluginID, v.RemoteID()) {
		return fault.New(fault.Conflict, "volume in use: %q is attached to node %s (%s)", v.ID, a.NodeID, a.State)
	}
	for other := range tx.VolumesByPlugin(v.PluginID) {
		if other.Provision.ExternalID == v.RemoteID() && (other.ID != v.ID || other.Namespace != v.Namespace) {
			return fault.New(fault.Conflict, "volume %q in namespace %q names the same external volume as %q: deregister it first",
				other.ID, other.Namespace, v.ID)
		}
	}
	return nil
}

// Apply forgets the deleted volume, or gives it back when the driver refused.
func (c *EndDelete) Apply(tx *state.Txn) (any, error) {
	v, err := c.Answer.answered(tx, api.VolumeDeleting)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Answer.Reason == "":
		tx.DeleteVolume(v.Namespace, v.ID)
		return nil, nil
	case c.Answer.Final:
		v.Provision.State = api.VolumeAvailable
	}
	put(tx, v)
	return nil, nil
}

// Apply stores the intent to grow a volume.
func (c *BeginExpand) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, missing(c.Namespace, c.ID)
	}
	if s := old.Provision.State; s != api.VolumeAvailable && s != api.VolumeExpanding {
		return nil, fault.New(fault.Conflict, "volume %q is %s and cannot be expanded", c.ID, s)
	}
	v := *old
	v.RequestedCapacityMin, v.RequestedCapacityMax = c.CapacityMinBytes, c.CapacityMaxBytes
	v.Provision.State, v.Provision.Intent, v.Provision.LastError = api.VolumeExpanding, tx.Index(), ""
	put(tx, &v)
	return v.Provision.Intent, nil
}

// Apply stores the new capacity and which nodes owe an expansion.
func (c *EndExpand) Apply(tx *state.Txn) (any, error) {
	v, err := c.Answer.answered(tx, api.VolumeExpanding)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Answer.Reason == "":
		v.Provision.State, v.Provision.CapacityBytes = api.VolumeAvailable, c.CapacityBytes
		if c.NodesOwe {
			v.Provision.NodeExpansion = owing(tx, v)
		}
	case c.Answer.Final:
		v.Provision.State = api.VolumeAvailable
	}
	put(tx, v)
	return nil, nil
}

// anyNode stands for whichever node stages the volume next.
const anyNode = "*"

// owing lists the nodes that may have the volume staged.
func owing(tx *state.Txn, v *api.Volume) []string {
	var nodes []string
	for c := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if claim.Live(c.State) && !slices.Contains(nodes, c.NodeID) {
			nodes = append(nodes, c.NodeID)
		}
	}
	if len(nodes) == 0 {
		return []string{anyNode}
	}
	return nodes
}

// Apply strikes the node off the list of those that owe an expansion.
func (c *NodeExpanded) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, missing(c.Namespace, c.ID)
	}
	v := *old
	v.Provision.NodeExpansion = slices.DeleteFunc(slices.Clone(v.Provision.NodeExpansion), func(n string) bool {
		return n == c.NodeID || n == anyNode
	})
	if c.Away && len(v.Provision.NodeExpansion) == 0 {
		v.Provision.NodeExpansion = []string{anyNode}
	}
	if c.Reason != "" {
		v.Provision.LastError = c.Reason
	}
	put(tx, &v)
	return nil, nil
}

// Apply records the node's report.
func (c *Report) Apply(tx *state.Txn) (any, error) {
	if held := tx.Claim(c.Namespace, c.VolumeID, c.AllocID); c.NoRoom != 0 && held != nil && held.NodeID == c.NodeID {
		ledger.NoRoom(tx, held.PluginID, held.ExternalID, c.NodeID, c.NoRoom)
	}
	if c.Mounting {
		return nil, ledger.MountWaits(tx, c.Namespace, c.VolumeID, c.AllocID, c.NodeID, c.Reason, c.NextRetry)
	}
	if c.Reason != "" {
		return nil, ledger.ReleaseFailed(tx, c.Namespace, c.VolumeID, c.AllocID, c.NodeID, c.Reason, c.NextRetry)
	}
	return nil, ledger.Released(tx, c.Namespace, c.VolumeID, c.AllocID, c.NodeID)
}

// Apply releases the claims. Those that are gone already are passed over.
func (c *Evict) Apply(tx *state.Txn) (any, error) {
	if c.Lost && !lost(tx.Node(c.NodeID)) {
		return nil, fault.New(fault.Conflict, "node %s has come back", c.NodeID)
	}
	for _, alloc := range c.AllocIDs {
		held := tx.Claim(c.Namespace, c.VolumeID, alloc)
		if held == nil || held.NodeID != c.NodeID || held.State == api.ClaimUnmounted || c.Lost && held.State != api.ClaimReleasing {
			continue
		}
		if err := ledger.Evict(tx, c.Namespace, c.VolumeID, alloc, c.Proof, c.By); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// lost reports whether nobody knows what happens on the node.
func lost(n *api.Node) bool { return n == nil || n.Status == api.NodeStatusDown }

// Apply records the driver's answer.
func (c *Attached) Apply(tx *state.Txn) (any, error) {
	i := ledger.Intent{PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID, Fence: c.Fence}
	switch {
	case c.Prepare:
		return nil, ledger.Prepare(tx, i)
	case c.Reason != "":
		if c.NoRoom != 0 {
			ledger.NoRoom(tx, c.PluginID, c.ExternalID, c.NodeID, c.NoRoom)
		}
		if c.Refused != 0 {
			return nil, ledger.PublishRefused(tx, i, c.Reason, c.Refused, c.Attempts)
		}
		return nil, ledger.CallFailed(tx, i, c.Reason, c.NextRetry, c.Attempts)
	case c.Published:
		ledger.Room(tx, c.PluginID, c.NodeID)
		return nil, ledger.PublishDone(tx, i, c.PublishContext)
	}
	return nil, ledger.UnpublishDone(tx, i)
}

// Apply lets all claims follow their allocations, and forgets what was learned of nodes long ago.
func (*Reconcile) Apply(tx *state.Txn) (any, error) {
	ledger.ExpireRoom(tx)
	return nil, ledger.Reconcile(tx, slices.Collect(tx.Claims()))
}
