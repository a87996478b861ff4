package hostvolumes

import (
	"fmt"
	"maps"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Put stores a volume: before its node creates it, and again with what the node returned.
type Put struct {
	Volume *api.HostVolume `msg:",omitempty"`
}

// Delete marks a volume as being deleted, or forgets it at the End.
type Delete struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
	End       bool   `msg:",omitempty"`
}

// DeleteClaim frees an allocation from its sticky volume: the next one may get another.
type DeleteClaim struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Put{} })
	r.Register(func() fsm.Command { return &Delete{} })
	r.Register(func() fsm.Command { return &DeleteClaim{} })
}

// Kind implements [fsm.Command].
func (*Put) Kind() fsm.Kind { return fsm.KindHostVolumePut }

// Kind implements [fsm.Command].
func (*Delete) Kind() fsm.Kind { return fsm.KindHostVolumeDelete }

// Kind implements [fsm.Command].
func (*DeleteClaim) Kind() fsm.Kind { return fsm.KindHostVolumeClaimDelete }

// Apply stores the volume unless another one of its node has its name.
func (c *Put) Apply(tx *state.Txn) (any, error) {
	if c.Volume == nil {
		return nil, fault.New(fault.Invalid, "missing volume definition")
	}
	v := *c.Volume
	n, old := tx.Node(v.NodeID), tx.HostVolume(v.Namespace, v.ID)
	switch {
	case tx.Namespace(v.Namespace) == nil:
		return nil, fault.New(fault.Invalid, "namespace %q does not exist: create it first", v.Namespace)
	case n == nil:
		return nil, fault.New(fault.NotFound, "node %q of host volume %q does not exist", v.NodeID, v.Name)
	case old != nil && old.Deleting:
		return nil, fault.New(fault.Conflict, "host volume %q is being deleted", v.ID)
	case old != nil && (old.NodeID != v.NodeID || old.Name != v.Name || old.PluginID != v.PluginID):
		return nil, fault.New(fault.Conflict, "host volume %q is %q of plugin %q on node %s: these do not change", v.ID, old.Name, old.PluginID, old.NodeID)
	}
	if err := nameTaken(tx, n, &v); err != nil {
		return nil, err
	}
	if err := quota.HostVolumeAllowed(tx, &v); err != nil {
		return nil, err
	}
	v.ModifyTime = tx.Now().UnixNano()
	v.CreateTime = v.ModifyTime
	if old != nil {
		v.CreateTime = old.CreateTime
	}
	v.State, v.Allocations = "", nil
	tx.PutHostVolume(&v)
	return nil, nil
}

// nameTaken refuses a second volume of a name on one node.
func nameTaken(tx *state.Txn, n *api.Node, v *api.HostVolume) error {
	if info := n.HostVolumes[v.Name]; info != nil && info.ID == "" {
		return fault.New(fault.Conflict, "the configuration of node %s has a host volume %q: choose another name", n.ID, v.Name)
	}
	count := 0
	for o := range tx.HostVolumesByNode(n.ID) {
		if o.ID == v.ID {
			return nil
		}
		if count++; o.Name == v.Name {
			return fault.New(fault.Conflict, "node %s has a host volume %q already: choose another name or node", n.ID, v.Name)
		}
	}
	if count >= perNodeMax {
		return fault.New(fault.Exhausted, "node %s has %d dynamic host volumes, which is the limit: choose another node", n.ID, count)
	}
	return nil
}

// Apply marks the volume unless an allocation uses it, or forgets it.
func (c *Delete) Apply(tx *state.Txn) (any, error) {
	v := tx.HostVolume(c.Namespace, c.ID)
	if v == nil {
		return nil, errMissing
	}
	if users := hostview.Users(tx, v); !c.End && len(users) > 0 {
		return nil, fault.New(fault.Conflict, "host volume %q is used by %s: stop them first", v.ID, named(users))
	}
	withdraw(tx, v)
	if c.End {
		tx.DeleteHostVolume(c.Namespace, c.ID)
		return nil, nil
	}
	next := *v
	next.Deleting, next.ModifyTime = true, tx.Now().UnixNano()
	tx.PutHostVolume(&next)
	return nil, nil
}

// withdraw takes the volume out of the record of its node, so that nothing is placed with it before the node reports again.
func withdraw(tx *state.Txn, v *api.HostVolume) {
	n := tx.Node(v.NodeID)
	if n == nil || n.HostVolumes[v.Name] == nil || n.HostVolumes[v.Name].ID != v.ID {
		return
	}
	next := *n
	next.HostVolumes = maps.Clone(n.HostVolumes)
	delete(next.HostVolumes, v.Name)
	tx.PutNode(&next)
}

// namedMax is how many allocations a refusal lists.
const namedMax = 5

func named(users []*api.Allocation) string {
	var list []string
	for _, a := range users[:min(len(users), namedMax)] {
		list = append(list, fmt.Sprintf("allocation %s (%s)", a.ID, a.Name))
	}
	if more := len(users) - namedMax; more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

// Apply deletes the claim.
func (c *DeleteClaim) Apply(tx *state.Txn) (any, error) {
	if !tx.DeleteHostVolumeClaim(c.Namespace, c.ID) {
		return nil, fault.New(fault.NotFound, "claim not found")
	}
	return nil, nil
}

var errMissing = fault.New(fault.NotFound, "volume not found")
