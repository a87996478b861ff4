package commands

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../../tools/go.mod ../../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Register records volumes that exist at their provider, or new specs of known ones.
type Register struct {
	Specs []*api.VolumeSpec `msg:",omitempty"`
	// NotValidated holds for each of Specs why its driver has not confirmed the capabilities; empty where it has, or
	// need not. Without any, what is known of the volumes stays.
	NotValidated []string `msg:",omitempty"`
	// Known is for each of Specs the CreateIndex of the volume whose driver need not be asked about all of it; 0 for
	// a new one.
	Known []uint64 `msg:",omitempty"`
}

// Intend records that a volume is to be created.
type Intend struct {
	Spec *api.VolumeSpec `msg:",omitempty"`
}

// Answer is a driver's reply to an intent. A Reason means that the call failed; Final that repeating it does not help.
// A creation that ended Uncertain is failed and may exist all the same, also when it was to be undone.
type Answer struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
	Intent    uint64 `msg:",omitempty"`
	Reason    string `msg:",omitempty"`
	Final     bool   `msg:",omitempty"`
	// Uncertain is set when a call of the intent that failed, this or an earlier one, may have had its effect.
	Uncertain bool `msg:",omitempty"`
	// Took is the time of the driver's last call in nanoseconds; 0 means unknown.
	Took int64 `msg:",omitempty"`
}

// Provisioned records the result of a creation. While the volume replaces an earlier creation it is the result of that
// one.
type Provisioned struct {
	Answer        Answer            `msg:",omitempty"`
	ExternalID    string            `msg:",omitempty"`
	CapacityBytes int64             `msg:",omitempty"`
	Context       map[string]string `msg:",omitempty"`
	Topologies    []*api.Topology   `msg:",omitempty"`
}

// Deregister forgets a volume without calling its provider. Claims that are being released stay until they are. A volume
// that was registered after the index Seen is not affected.
type Deregister struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
	Force     bool   `msg:",omitempty"`
	Seen      uint64 `msg:",omitempty"`
}

// BeginDelete records that a volume is to be deleted; it cannot be claimed from then on. It does not affect a volume
// that was created, or an operation that was begun, after the index Seen.
type BeginDelete struct {
	Namespace string            `msg:",omitempty"`
	ID        string            `msg:",omitempty"`
	Secrets   map[string]string `msg:",omitempty" secret:"true"`
	Seen      uint64            `msg:",omitempty"`
}

// ConfirmDelete is written just before the driver is asked to delete: it looks at all claims, attachments and specs
// of the external volume once more, and cancels the deletion when there are any. It returns a [Confirmation].
type ConfirmDelete struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
	Intent    uint64 `msg:",omitempty"`
	// Kept is what the volume reports when it is not deleted. The proposer creates it, because what a server stores
	// must not depend on the texts of its program.
	Kept string `msg:",omitempty"`
}

// EndDelete records the result of a deletion: of the volume, or of what an earlier creation made that it replaces.
type EndDelete struct {
	Answer Answer `msg:",omitempty"`
}

// BeginExpand records that a volume is to grow.
type BeginExpand struct {
	Namespace        string `msg:",omitempty"`
	ID               string `msg:",omitempty"`
	CapacityMinBytes int64  `msg:",omitempty"`
	CapacityMaxBytes int64  `msg:",omitempty"`
	// Seen is the index of the state by which it was asked for: nothing was begun since.
	Seen uint64 `msg:",omitempty"`
}

// EndExpand records the result of an expansion.
type EndExpand struct {
	Answer Answer `msg:",omitempty"`
	// CapacityBytes is how large the volume is now, also after an expansion that failed finally: an earlier call may
	// have grown it. 0 is not known.
	CapacityBytes int64 `msg:",omitempty"`
	// NodesOwe is set when nodes must expand too.
	NodesOwe bool `msg:",omitempty"`
}

// NodeExpanded records that a node has expanded a volume, or that it cannot: then a Reason is set.
// Away means that it no longer uses the volume, and that the next node owes the expansion.
type NodeExpanded struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
	NodeID    string `msg:",omitempty"`
	Away      bool   `msg:",omitempty"`
	Reason    string `msg:",omitempty"`
	// Again is set when the expansion on the node is still pending: the Reason describes why the node is called again.
	Again bool `msg:",omitempty"`
	// Seen is the index at which the node owed it: no expansion was begun since.
	Seen uint64 `msg:",omitempty"`
}

// Report is a node's report on an unmount: done, or failed with a reason. The leader also writes it with a reason, to
// record what a claim waits for and when that may end.
type Report struct {
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	AllocID   string `msg:",omitempty"`
	// Use is that of the claim.
	Use    string `msg:",omitempty"`
	NodeID string `msg:",omitempty"`
	Reason string `msg:",omitempty"`
	// NextRetry is in Unix nanoseconds.
	NextRetry int64 `msg:",omitempty"`
	// Mounting is set when the node reports on a mount: it waits for the Reason, or continues without one.
	Mounting bool `msg:",omitempty"`
	// LimitExpiry is until when the node takes no more volumes, in Unix nanoseconds; 0 means no news of its limit.
	LimitExpiry int64 `msg:"NoRoom,omitempty"`
	// WriteBack is how long in nanoseconds it took to write data back and unmount; 0 means unknown.
	WriteBack int64 `msg:",omitempty"`
}

// Evict releases claims on a node without the node's own report. Lost means that the node must still
// be lost, or away, when the command is applied.
type Evict struct {
	Namespace string   `msg:",omitempty"`
	VolumeID  string   `msg:",omitempty"`
	NodeID    string   `msg:",omitempty"`
	AllocIDs  []string `msg:",omitempty"`
	// Uses are those of the claims, one for each of AllocIDs; without them it applies to all uses of the volume.
	Uses  []string `msg:",omitempty"`
	Proof string   `msg:",omitempty"`
	By    string   `msg:",omitempty"`
	// Reason is what an operator gave.
	Reason string `msg:",omitempty"`
	Lost   bool   `msg:",omitempty"`
}

// Attached records a driver's reply to a publish or unpublish.
type Attached struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	Fence      uint64 `msg:",omitempty"`
	// Published distinguishes the two calls.
	Published bool `msg:",omitempty"`
	// NotCalled is set when the plugin turned out not to attach volumes: nothing was attached, nothing will have to
	// be detached.
	NotCalled      bool              `msg:",omitempty"`
	PublishContext map[string]string `msg:",omitempty"`
	Reason         string            `msg:",omitempty"`
	// Refused is the error class of a reply that ends a publish: the driver would reply the same again.
	Refused   uint8 `msg:",omitempty"`
	NextRetry int64 `msg:",omitempty"`
	Attempts  int   `msg:",omitempty"`
	// Took is the time of the driver's last call in nanoseconds; 0 means unknown.
	Took int64 `msg:",omitempty"`
	// Prepare looks up the provider's id of the node, which was not known when the intent was made.
	Prepare bool `msg:",omitempty"`
	// LimitExpiry is until when the node takes no more volumes, in Unix nanoseconds; 0 means no news of its limit.
	LimitExpiry int64 `msg:"NoRoom,omitempty"`
}

// UndoAttach detaches a volume that the driver may have attached after its row was removed. Row is that row, with the
// secrets of the call; Seen is the index of a state without one.
type UndoAttach struct {
	Row  *api.VolumeAttachment `msg:",omitempty"`
	Seen uint64                `msg:",omitempty"`
}

// IntendSnapshot records that a snapshot is to be made or deleted. It returns the index of the intent,
// which is an earlier one when the same is under way.
type IntendSnapshot struct {
	Intent *api.SnapshotIntent `msg:",omitempty"`
}

// SnapshotAnswer records the driver's reply to an intent: done or refused, which both end it, or a reason why it is
// tried again. What ends with a SnapshotID is deleted.
type SnapshotAnswer struct {
	PluginID string `msg:",omitempty"`
	Name     string `msg:",omitempty"`
	Delete   bool   `msg:",omitempty"`
	Intent   uint64 `msg:",omitempty"`
	Ended    bool   `msg:",omitempty"`
	Reason   string `msg:",omitempty"`
	// SnapshotID is the driver's id of the snapshot.
	SnapshotID string `msg:",omitempty"`
	// Uncertain and Unwanted are those of [api.SnapshotIntent].
	Uncertain bool `msg:",omitempty"`
	Unwanted  bool `msg:",omitempty"`
	// Made is set when the driver has cut a snapshot that was still requested at the time of the call.
	Made bool `msg:",omitempty"`
	// Took is the time of the driver's last call in nanoseconds; 0 means unknown.
	Took int64 `msg:",omitempty"`
}

// GiveUpSnapshot ends what is intended with a snapshot that is named by its name, or by the driver's id. While the id
// of a snapshot that is being created is unknown, the snapshot becomes unwanted: the leader finds what was created and
// deletes it. With Forget all of it is forgotten instead, whatever may be at the provider. What was requested after
// the index Seen is not affected. With Made it is the result of a call that was under way when its intent was
// forgotten: what it has cut is deleted.
type GiveUpSnapshot struct {
	PluginID string            `msg:",omitempty"`
	Name     string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty" secret:"true"`
	Forget   bool              `msg:",omitempty"`
	Seen     uint64            `msg:",omitempty"`
	// Made is the deletion, by the driver's id, and CutAs the name of what was cut.
	Made *api.SnapshotIntent `msg:",omitempty" null:"allowed"`
}

// WriteOff ends the attachment of an external volume to a node, and the claims that use it there, by an operator
// override, whatever its driver reports: a later reply is refused. With StaleMounts it ends what the node may still
// have mounted of it instead.
type WriteOff struct {
	PluginID    string `msg:",omitempty"`
	ExternalID  string `msg:",omitempty"`
	NodeID      string `msg:",omitempty"`
	StaleMounts bool   `msg:",omitempty"`
	// Seen is the index of the state that the override is for: later changes are not affected.
	Seen uint64 `msg:",omitempty"`
	// Since is that of the newest of the stale mounts.
	Since int64 `msg:",omitempty"`
	// By and Reason are what the operator gave.
	By     string `msg:",omitempty"`
	Reason string `msg:",omitempty"`
}

// Reconcile lets all claims follow their allocations, also those that were forgotten.
type Reconcile struct{}

// EndHold ends the hold on volumes after a restore: all nodes have reported their mounts. At is that of the
// [api.Rollback].
type EndHold struct {
	At int64 `msg:",omitempty"`
}

// Reseal replaces sealed secrets by the same ones under another root key.
type Reseal struct {
	Values map[string]string `msg:",omitempty"`
}

// All registers the commands on volumes.
func All(r *fsm.Registry) {
	for _, make := range []func() fsm.Command{
		func() fsm.Command { return &Register{} },
		func() fsm.Command { return &Intend{} },
		func() fsm.Command { return &Provisioned{} },
		func() fsm.Command { return &Deregister{} },
		func() fsm.Command { return &BeginDelete{} },
		func() fsm.Command { return &ConfirmDelete{} },
		func() fsm.Command { return &EndDelete{} },
		func() fsm.Command { return &BeginExpand{} },
		func() fsm.Command { return &EndExpand{} },
		func() fsm.Command { return &NodeExpanded{} },
		func() fsm.Command { return &Report{} },
		func() fsm.Command { return &Evict{} },
		func() fsm.Command { return &IntendSnapshot{} },
		func() fsm.Command { return &SnapshotAnswer{} },
		func() fsm.Command { return &GiveUpSnapshot{} },
		func() fsm.Command { return &Attached{} },
		func() fsm.Command { return &UndoAttach{} },
		func() fsm.Command { return &WriteOff{} },
		func() fsm.Command { return &Reconcile{} },
		func() fsm.Command { return &EndHold{} },
		func() fsm.Command { return &Reseal{} },
	} {
		r.Register(make)
	}
}

// Kind implements [fsm.Command].
func (*Register) Kind() fsm.Kind { return fsm.KindVolumeRegister }

// Kind implements [fsm.Command].
func (*Intend) Kind() fsm.Kind { return fsm.KindVolumeIntent }

// Kind implements [fsm.Command].
func (*Provisioned) Kind() fsm.Kind { return fsm.KindVolumeProvisioned }

// Kind implements [fsm.Command].
func (*Deregister) Kind() fsm.Kind { return fsm.KindVolumeDeregister }

// Kind implements [fsm.Command].
func (*BeginDelete) Kind() fsm.Kind { return fsm.KindVolumeDeleteBegin }

// Kind implements [fsm.Command].
func (*ConfirmDelete) Kind() fsm.Kind { return fsm.KindVolumeDeleteConfirm }

// Kind implements [fsm.Command].
func (*WriteOff) Kind() fsm.Kind { return fsm.KindVolumeWriteOff }

// Kind implements [fsm.Command].
func (*Reseal) Kind() fsm.Kind { return fsm.KindVolumeReseal }

// Apply replaces the values wherever they are.
func (c *Reseal) Apply(tx *state.Txn) (any, error) {
	secrets.Replace(tx, c.Values)
	return nil, nil
}

// Kind implements [fsm.Command].
func (*EndHold) Kind() fsm.Kind { return fsm.KindRollbackEnd }

// Kind implements [fsm.Command].
func (*EndDelete) Kind() fsm.Kind { return fsm.KindVolumeDeleteEnd }

// Kind implements [fsm.Command].
func (*BeginExpand) Kind() fsm.Kind { return fsm.KindVolumeExpandBegin }

// Kind implements [fsm.Command].
func (*EndExpand) Kind() fsm.Kind { return fsm.KindVolumeExpandEnd }

// Kind implements [fsm.Command].
func (*NodeExpanded) Kind() fsm.Kind { return fsm.KindVolumeNodeExpanded }

// Kind implements [fsm.Command].
func (*Report) Kind() fsm.Kind { return fsm.KindVolumeUnpublish }

// Kind implements [fsm.Command].
func (*Evict) Kind() fsm.Kind { return fsm.KindVolumeDetach }

// Kind implements [fsm.Command].
func (*Attached) Kind() fsm.Kind { return fsm.KindAttachmentResult }

// Kind implements [fsm.Command].
func (*UndoAttach) Kind() fsm.Kind { return fsm.KindAttachmentUndo }

// Kind implements [fsm.Command].
func (*Reconcile) Kind() fsm.Kind { return fsm.KindVolumeClaimsReconcile }
