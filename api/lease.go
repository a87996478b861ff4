package api

import (
	"slices"
	"time"
)

// Voters are the servers that elect the leader, regardless of their gossip status.
type Voters struct {
	// Index is the raft index of the configuration entry that lists the voters.
	Index uint64
	// Servers maps server ids to RPC addresses.
	Servers map[string]string
}

// Leaderless reports whether the responses prove that there is no leader. The committed voters may have been replaced
// since. Each change was written by a majority of the previous voters, so any majority contains a server with the
// change in its log. Therefore a majority of the voters, and of each newer set in a response, must report no leader,
// and no response may contain an unsettled change.
func (v *Voters) Leaderless(answers []*StatusLeaderResponse) bool {
	silent := map[string]bool{}
	for _, a := range answers {
		silent[a.Server] = a.Server != "" && a.Leader == ""
	}
	return v != nil && v.majority(silent) && !slices.ContainsFunc(answers, func(a *StatusLeaderResponse) bool { return a.objects(v, silent) })
}

// objects reports whether the response contradicts that the servers without a leader are a majority of the voters.
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

// LeaseTerm divides the time of a lease. All its times count from the sending of the last heartbeat that a leader
// acknowledged. The servers wait longer than Term.
type LeaseTerm struct {
	Term time.Duration
	// WriteBack is the last part of Term, in which no task uses the volume; 0 means a quarter of Term.
	WriteBack time.Duration
}

//msgp:ignore LeaseTerm

func (l LeaseTerm) writeBack() time.Duration {
	if l.WriteBack <= 0 {
		return l.Term / 4
	}
	return min(l.WriteBack, l.Term/2)
}

// Stop returns the time at which the tasks that use the volume are killed. After it, data is written back and the
// volume is unmounted.
func (l LeaseTerm) Stop() time.Duration { return l.Term - l.writeBack() }

// Cut returns the time at which data that is not written back is cut off from the storage.
func (l LeaseTerm) Cut() time.Duration { return l.Term - l.writeBack()/2 }

// Last returns the time at which the agent checks that the volume is unmounted or cut off.
func (l LeaseTerm) Last() time.Duration { return l.Term - l.writeBack()/4 }

// Beat returns the maximum interval between heartbeats; single heartbeats may be lost.
func (l LeaseTerm) Beat() time.Duration { return l.Stop() / 3 }

// WriteBackOf returns the write-back time of a volume that sets none: a quarter of the lease or twice the slowest
// measured one, whichever is longer, and at most half of the lease.
func WriteBackOf(term, slowest time.Duration) time.Duration {
	return min(max(term/4, 2*slowest), term/2)
}
