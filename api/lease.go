package api

import (
	"slices"
	"time"
)

// Voters are the servers that elect the leader, whatever gossip thinks of them.
type Voters struct {
	// Index is the raft index of the entry that made them voters.
	Index uint64
	// Servers maps their ids to their RPC addresses.
	Servers map[string]string
}

// Leaderless reports whether the answers prove that nobody leads. The voters, which are committed, may have
// been replaced since: whoever made a change had it written by a majority of the voters before, so that among
// any majority there is one who knows of it. Therefore a majority of the voters, and of each newer set that
// somebody answers, must know no leader, and none may know of a change that is not settled.
func (v *Voters) Leaderless(answers []*StatusLeaderResponse) bool {
	silent := map[string]bool{}
	for _, a := range answers {
		silent[a.Server] = a.Server != "" && a.Leader == ""
	}
	return v != nil && v.majority(silent) && !slices.ContainsFunc(answers, func(a *StatusLeaderResponse) bool { return a.objects(v, silent) })
}

// objects reports whether the answer is against the word of the silent ones, who are most of the voters.
func (a *StatusLeaderResponse) objects(v *Voters, silent map[string]bool) bool {
	if a.Voters == nil {
		return silent[a.Server] && v.Servers[a.Server] != ""
	}
	return a.Voters.Index > v.Index && (a.Unsettled || !a.Voters.majority(silent))
}

// majority reports whether more than half of the voters are in the set.
func (v *Voters) majority(of map[string]bool) bool {
	n := 0
	for id := range v.Servers {
		if of[id] {
			n++
		}
	}
	return n > len(v.Servers)/2
}

// LeaseTerm is how the time of a lease is spent. All of it counts from when the last heartbeat was sent that a
// leader answered. The servers wait for longer than Term.
type LeaseTerm struct {
	Term time.Duration
	// WriteBack is the last part of it, in which nobody uses the volume any more; 0 means a quarter of it.
	WriteBack time.Duration
}

//msgp:ignore LeaseTerm

func (l LeaseTerm) writeBack() time.Duration {
	if l.WriteBack <= 0 {
		return l.Term / 4
	}
	return min(l.WriteBack, l.Term/2)
}

// Stop is when the users are killed. Data is written back and the volume unmounted after that.
func (l LeaseTerm) Stop() time.Duration { return l.Term - l.writeBack() }

// Cut is when what is not written back yet is cut off from the storage.
func (l LeaseTerm) Cut() time.Duration { return l.Term - l.writeBack()/2 }

// Last is when the agent looks whether all that was done.
func (l LeaseTerm) Last() time.Duration { return l.Term - l.writeBack()/4 }

// Beat is the longest time between two heartbeats: some may be lost.
func (l LeaseTerm) Beat() time.Duration { return l.Stop() / 3 }

// WriteBackOf is the write-back time of a volume that sets none: a quarter of the lease, or twice the slowest one
// that was measured, and no more than half of the lease.
func WriteBackOf(term, slowest time.Duration) time.Duration {
	return min(max(term/4, 2*slowest), term/2)
}
