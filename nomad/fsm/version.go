package fsm

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Version is the version of the raft log that this program reads and writes. It grows by one with every
// release that adds a command, adds a field to one, or changes the effect of one. A leader writes only
// what all servers understand: see [Since] and [Raft.Agreed].
//
// All servers apply an entry with the same effect, whatever program they run. A changed effect therefore
// depends on the version in the state ([state.Txn.AgreedVersion]), and stored texts come with the entry.
const Version uint64 = 1 + versionsAhead

// since lists the commands that were added after version 1.
var since = map[Kind]uint64{
	KindNext: 2,
}

// KindNext is the command of a version that does not exist yet. Programs built with the tag nextversion
// have it; a test uses them to show that servers of two versions work together.
const KindNext Kind = 0x7fff

// Since is the version that added a command.
func Since(k Kind) uint64 { return max(1, since[k]) }

// Agreed is the version that all servers of the cluster understand. A field of a later version must not
// be written yet.
func (r *Raft) Agreed() uint64 { return r.state.Read().AgreedVersion() }

// checkVersion refuses commands that some server does not understand.
func (r *Raft) checkVersion(k Kind) error {
	if need, have := Since(k), r.Agreed(); need > have {
		return fault.New(fault.Unavailable,
			"command kind %d needs version %d of the log, and the servers agree on version %d: upgrade all servers", k, need, have)
	}
	return nil
}

// minVersion refuses a state whose servers agree on a later version than this program has.
func minVersion(tx *state.Txn) error {
	if v := tx.AgreedVersion(); v > Version {
		return fault.New(fault.Unimplemented,
			"its servers agree on version %d of the log and this program has version %d: start a newer program", v, Version)
	}
	return nil
}
