package fsm

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Version is the version of the raft log that this program reads and writes. It grows by one with every
// release that adds a command, adds a field to one, or changes the effect of one. A leader writes only
// what all servers understand: see [Since] and [state.Txn.AgreedVersion].
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

// CheckKind refuses commands that some server does not understand; agreed is the version that all understand.
func CheckKind(k Kind, agreed uint64) error {
	if need := Since(k); need > agreed {
		return fault.New(fault.Unavailable,
			"command kind %d needs version %d of the log, and the servers agree on version %d: upgrade all servers", k, need, agreed)
	}
	return nil
}

// MinVersion refuses a state whose servers agree on a later version than this program has.
func MinVersion(tx *state.Txn) error {
	if v := tx.AgreedVersion(); v > Version {
		return fault.New(fault.Unimplemented,
			"its servers agree on version %d of the log and this program has version %d: start a newer program", v, Version)
	}
	return nil
}
