package commands

import (
	"errors"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Expandable returns an error while a volume is in use that its plugin expands only when unused.
func Expandable(tx *state.Txn, v *api.Volume) error {
	offline, err := outOfUse(tx, v.PluginID)
	if err != nil || !offline {
		return err
	}
	e := ledger.ExternalOf(tx, v)
	if len(e.Claims) > 0 {
		return fault.New(fault.Conflict, "volume in use: plugin %q expands unused volumes only, and %q is held by %s",
			v.PluginID, v.ID, ledger.Holders(tx, v.Namespace, e.Claims))
	}
	for _, a := range e.Attachments {
		return fault.New(fault.Conflict, "volume in use: plugin %q expands unused volumes only, and %q is attached to node %s (%s); %s",
			v.PluginID, v.ID, ledger.Short(a.NodeID), a.State, ledger.Detached(v, a))
	}
	return nil
}

// outOfUse reports whether the plugin's controller expands volumes only while they are not in use.
func outOfUse(tx *state.Txn, plugin string) (bool, error) {
	if nodesOnly, err := pluginview.ExpandsOnNodesOnly(tx, plugin); err != nil || nodesOnly {
		return false, err
	}
	return pluginview.Capable(tx, plugin, pluginview.ExpandUnused)
}

// Apply stores the intent to grow a volume, and returns the operation to wait for.
func (c *BeginExpand) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, Missing(c.Namespace, c.ID)
	}
	if s := old.Provision.State; s != api.VolumeAvailable && s != api.VolumeExpanding {
		return nil, fault.New(fault.Conflict, "volume %q is %s and cannot be expanded", c.ID, s)
	}
	if later(c.Seen, old.CreateIndex, old.Provision.Intent, old.Provision.Began) {
		return nil, changed(c.ID)
	}
	if err := ledger.MayExpand(tx, old); err != nil {
		return nil, err
	}
	offline, err := outOfUse(tx, old.PluginID)
	if offline && err == nil {
		err = Expandable(tx, old)
	}
	if err != nil && !errors.Is(err, fault.Unavailable) { // no controller is there: it is asked when one is
		return nil, err
	}
	v := *old
	v.RequestedCapacityMin, v.RequestedCapacityMax = c.CapacityMinBytes, c.CapacityMaxBytes
	if err := quota.VolumeAllowed(tx, &v); err != nil {
		return nil, err
	}
	p := &v.Provision
	p.State, p.Intent, p.Began, p.LastError, p.OutOfUse = api.VolumeExpanding, tx.Index(), tx.Index(), "", offline
	put(tx, &v)
	return p.Operation(), nil
}

// Apply stores the new capacity and which nodes owe an expansion, for all specs of the external volume.
func (c *EndExpand) Apply(tx *state.Txn) (any, error) {
	tx.NoteCall(time.Duration(c.Answer.Took), c.Answer.Reason)
	v, err := c.Answer.answered(tx, api.VolumeExpanding)
	if err != nil {
		return nil, err
	}
	p := &v.Provision
	p.Uncertain = false // a capacity can be asked for once more at any time
	switch {
	case c.Answer.Reason == "":
		p.State = api.VolumeAvailable
		c.grown(tx, v)
	case c.Answer.Final:
		p.State = api.VolumeAvailable
		put(tx, v)
		if c.CapacityBytes > p.CapacityBytes {
			c.grown(tx, v)
		}
	default:
		put(tx, v)
	}
	return nil, ledger.Reconcile(tx, ledger.ExternalOf(tx, v).Claims) // some may have waited for the end
}

// grown stores what the volume has now.
func (c *EndExpand) grown(tx *state.Txn, v *api.Volume) {
	next := *v
	p := &next.Provision
	if c.CapacityBytes > 0 {
		p.CapacityBytes = c.CapacityBytes
	}
	p.NotGrown = false
	if c.NodesOwe {
		p.NodeExpansion = toExpand(tx, &next)
	}
	put(tx, &next)
	ledger.Mirror(tx, &next)
}

// AnyNode stands for whichever node stages the volume next.
const AnyNode = "*"

// toExpand lists the nodes that may have the volume staged.
func toExpand(tx *state.Txn, v *api.Volume) []string {
	var nodes []string
	for _, c := range ledger.ExternalOf(tx, v).Claims {
		if claim.Live(c.State) && !slices.Contains(nodes, c.NodeID) {
			nodes = append(nodes, c.NodeID)
		}
	}
	if len(nodes) == 0 {
		return []string{AnyNode}
	}
	return nodes
}

// Apply strikes the node off the list of those that owe an expansion, in all specs of the external volume.
func (c *NodeExpanded) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, Missing(c.Namespace, c.ID)
	}
	for _, s := range ledger.ExternalOf(tx, old).Specs {
		if later(c.Seen, s.Provision.Intent) {
			return nil, changed(c.ID)
		}
	}
	v := *old
	p := &v.Provision
	if c.Reason != "" || c.Again {
		p.LastError = c.Reason
	}
	if c.Again {
		put(tx, &v)
		return nil, nil
	}
	p.NotGrown = p.NotGrown || c.Reason != ""
	p.NodeExpansion = slices.DeleteFunc(slices.Clone(p.NodeExpansion), func(n string) bool {
		return n == c.NodeID || n == AnyNode
	})
	if c.Away && len(p.NodeExpansion) == 0 {
		p.NodeExpansion = []string{AnyNode}
	}
	put(tx, &v)
	ledger.Mirror(tx, &v)
	return nil, nil
}
