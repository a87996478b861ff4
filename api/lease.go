package api

import "slices"

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
