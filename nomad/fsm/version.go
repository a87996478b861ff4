package fsm

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Version is the version of the log's language that this program reads and writes. It grows by one with
// every release that adds a command, or a field to one. A leader writes only what all servers understand:
// see [Since] and [Raft.Agreed].
// What an entry does must not depend on the program that applies it either: a change of that asks the state for
// the version that brought it, see [Ends]. That goes for words too: errors that are stored come with the entry.
const Version uint64 = Keyring + versionsAhead

// Ends is the version from which on a plan leaves alone what has finished and comes to no node whose drain may be over,
// what a job that runs once did is not forgotten before the job is, what a node ended by itself is evaluated, times of
// clocks that were wrong hold neither launches nor nodes that came back, the success of a deployment marks its version
// stable, unhealthy by hand fails it, the end of a job has a time, what the placements of a plan take of volumes is judged
// together, what is attached to the machine that a node was before serves nobody anew, and volumes of lost allocations
// leave nodes that are disconnected.
const Ends uint64 = 2

// Keyring is the version from which on the cluster has root keys, an operator's word on a detach leaves the claims that
// wait for it, a creation is not answered with what was made by another name, nor takes from a volume what is known of
// its growth, what a lost node may have mounted is kept with the driver's id of its machine and with the row of that
// node, why a volume is not deleted or attached is said by the entry, a failed expansion may tell the size, volumes and
// attachments keep the names of their drivers, which are learnt from answers and attach what is theirs, claims what
// their volumes say about the loss of a node, those of a volume whose id is that of another one by now are not of that,
// a plugin comes to a node that takes nothing new but needs it for its volumes, its job does not leave such nodes, it
// comes back to those that have left its job, or to which a service brought it, and is looked at when they are back, or
// it has ended there, a job of a plugin is not stopped for another one that cannot do what it does, who goes on although
// its volume was given up is evaluated, a job that has more than is allowed is scaled down to what still is more, a
// topology_request that says nothing is none, nodes keep the names of the processes that registered, work whose sidecars
// were ended with it is not taken for work that its node ended, one volume of a driver has no second plugin, and system
// jobs are looked at when a volume of theirs can be used on other nodes, but not when they are only templates of others.
const Keyring uint64 = 3

// since lists the commands that later versions have added.
var since = map[Kind]uint64{
	KindVolumeDeleteConfirm: 2, KindVolumeWriteOff: 2, KindRollbackEnd: 2, KindAttachmentUndo: 2,
	KindSnapshotGiveUp: 2, KindRestoreMark: Ends,
	KindDriverRename: Keyring, KindRootKeyAdd: Keyring, KindRootKeyDelete: Keyring,
	KindNext: Keyring + 1,
}

// KindNext is the command of a version that does not exist yet. Only programs built with the tag
// nextversion know it; they prove that servers of two versions work side by side.
const KindNext Kind = 0x7fff

// Since is the version that a command came with.
func Since(k Kind) uint64 { return max(1, since[k]) }

// Agreed is the version that all servers of the cluster understand. A field that came with a later one
// must not be written yet.
func (r *Raft) Agreed() uint64 { return r.state.Read().AgreedVersion() }

// speakable refuses commands that some server would not understand.
func (r *Raft) speakable(k Kind) error {
	if need, have := Since(k), r.Agreed(); need > have {
		return fault.New(fault.Unavailable,
			"command kind %d needs version %d of the log, and the servers agree on version %d: upgrade all servers", k, need, have)
	}
	return nil
}

// understood fails when the servers have agreed on a version that this program does not know.
func understood(tx *state.Txn) error {
	if v := tx.AgreedVersion(); v > Version {
		return fault.New(fault.Unimplemented,
			"its servers agree on version %d of the log and this program knows version %d: start a newer program", v, Version)
	}
	return nil
}
