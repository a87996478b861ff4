package api

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// votersOf makes voters of the ids in a word: each letter is a server.
func votersOf(index uint64, ids string) *Voters {
	v := &Voters{Index: index, Servers: map[string]string{}}
	for _, id := range ids {
		v.Servers[string(id)] = "address of " + string(id)
	}
	return v
}

func TestNobodyLeadsOnlyByAMajorityOfTheVoters(t *testing.T) {
	five, three := votersOf(3, "abcde"), votersOf(9, "abc")
	none := func(id string, v *Voters) *StatusLeaderResponse { return &StatusLeaderResponse{Server: id, Voters: v} }
	led := func(id string, v *Voters) *StatusLeaderResponse {
		return &StatusLeaderResponse{Server: id, Voters: v, Leader: "d"}
	}
	unsettled := none("c", votersOf(9, "abcdef"))
	unsettled.Unsettled = true
	for _, c := range []struct {
		name    string
		known   *Voters
		answers []*StatusLeaderResponse
		want    bool
	}{
		{"nothing is known", nil, []*StatusLeaderResponse{none("a", five), none("b", five), none("c", five)}, false},
		{"three of five", five, []*StatusLeaderResponse{none("a", five), none("b", five), none("c", five)}, true},
		{"two of five, who are all that answer", five, []*StatusLeaderResponse{none("a", five), none("b", five)}, false},
		{"a third knows a leader", five, []*StatusLeaderResponse{none("a", five), none("b", five), led("c", five)}, false},
		{"one that answers at three addresses", five, []*StatusLeaderResponse{none("a", five), none("a", five), none("a", five)}, false},
		{"others do not vote", five, []*StatusLeaderResponse{none("a", five), none("b", five), none("x", five), none("y", five)}, false},
		{"servers of before, without ids", five, []*StatusLeaderResponse{none("", nil), none("", nil), none("", nil)}, false},
		{"two who claim that there are three", five, []*StatusLeaderResponse{none("a", three), none("b", three)}, false},
		{"fewer voters, by most of both", five, []*StatusLeaderResponse{none("a", three), none("b", three), none("d", five)}, true},
		{"more voters, and most of the old ones", votersOf(3, "abc"), []*StatusLeaderResponse{none("a", votersOf(9, "abcde")), none("b", votersOf(3, "abc"))}, false},
		{"a change that may not be committed", five, []*StatusLeaderResponse{none("a", five), none("b", five), unsettled, none("d", five)}, false},
		{"a voter that does not know the voters", five, []*StatusLeaderResponse{none("a", five), none("b", five), none("c", nil)}, false},
		{"an earlier set does not count", five, []*StatusLeaderResponse{none("a", votersOf(2, "a")), none("b", five), none("c", five)}, true},
	} {
		if got := c.known.Leaderless(c.answers); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// history is a cluster whose voters change one at a time, some changes by leaders that had them committed, some
// not.
type history struct {
	r      *rand.Rand
	logs   map[string][]*Voters // per server, the changes that it has
	chain  []*Voters            // the committed ones
	settle map[string]uint64    // per server, up to which index it knows that they are
	index  uint64
}

func newHistory(seed uint64) *history {
	h := &history{r: rand.New(rand.NewPCG(seed, 1)), logs: map[string][]*Voters{}, settle: map[string]uint64{}, index: 1}
	first := votersOf(1, "abcdefg"[:1+h.r.IntN(7)])
	for _, id := range "abcdefg" {
		h.logs[string(id)], h.settle[string(id)] = []*Voters{first}, 1
	}
	h.chain = []*Voters{first}
	return h
}

func last(all []*Voters) *Voters { return all[len(all)-1] }

// change has a leader change the voters by one; it is written by some, and by a majority of the new ones or not.
func (h *history) change() {
	now := last(h.chain)
	h.index++
	next := &Voters{Index: h.index, Servers: map[string]string{}}
	for id := range now.Servers {
		next.Servers[id] = ""
	}
	one := string("abcdefg"[h.r.IntN(7)])
	if _, in := next.Servers[one]; !in {
		next.Servers[one] = ""
	} else if delete(next.Servers, one); len(next.Servers) == 0 {
		return
	}
	had := map[string]bool{}
	for id := range h.logs {
		had[id] = h.r.IntN(2) == 0
	}
	committed := next.majority(had)
	log := append(append([]*Voters{}, h.chain...), next)
	for id := range had {
		if !had[id] {
			continue
		}
		h.logs[id] = log
		h.settle[id] = now.Index
		if committed && h.r.IntN(2) == 0 {
			h.settle[id] = next.Index
		}
	}
	if committed {
		h.chain = log
	}
}

// A node that was told any committed set must never find that nobody leads while somebody does, whoever answers
// it. The leader has all that is committed, and a majority of its newest voters knows it.
func TestNoMajorityIsFoundBesideALeader(t *testing.T) {
	tried := 0
	for seed := range uint64(20_000) {
		h := newHistory(seed)
		for range h.r.IntN(6) {
			h.change()
		}
		leads := last(h.chain)
		follow := map[string]bool{}
		for id, log := range h.logs {
			if h.r.IntN(2) == 0 && last(log).Index >= leads.Index {
				follow[id] = true
			}
		}
		if h.r.IntN(2) == 0 { // who elects may have an older log, but for one of them: the leader writes it anew
			for id := range h.logs {
				if h.r.IntN(2) == 0 {
					follow[id] = true
				}
			}
		}
		if !leads.majority(follow) {
			continue
		}
		for id := range follow { // what the leader has not is overwritten
			h.logs[id] = h.chain
		}
		var answers []*StatusLeaderResponse
		for id, log := range h.logs {
			newest := last(log)
			if h.r.IntN(5) == 0 {
				continue
			}
			a := &StatusLeaderResponse{Server: id, Voters: newest, Unsettled: newest.Index > h.settle[id]}
			if follow[id] {
				a.Leader = "somebody"
			}
			answers = append(answers, a)
		}
		tried++
		for _, known := range h.chain {
			if known.Leaderless(answers) {
				t.Fatalf("seed %d: a node that knows %v takes %s for the proof that nobody leads; chain %v", seed, known, told(answers), h.chain)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d histories had a leader", tried)
	}
}

func told(answers []*StatusLeaderResponse) (s string) {
	for _, a := range answers {
		s += fmt.Sprintf("[%s leader %q %v unsettled %v]", a.Server, a.Leader, a.Voters, a.Unsettled)
	}
	return s
}

func TestTermOfALeaseIsSpentInOrder(t *testing.T) {
	for _, l := range []LeaseTerm{{Term: time.Second}, {Term: 5 * time.Minute}, {Term: 10 * time.Second, WriteBack: time.Second}, {Term: time.Minute, WriteBack: time.Hour}} {
		if !(0 < l.Beat() && 2*l.Beat() < l.Stop() && l.Stop() < l.Cut() && l.Cut() < l.Last() && l.Last() < l.Term) {
			t.Errorf("%+v: beat %s, stop %s, cut %s, last %s", l, l.Beat(), l.Stop(), l.Cut(), l.Last())
		}
		if l.Stop() < l.Term/2 {
			t.Errorf("%+v: users have %s", l, l.Stop())
		}
	}
	for _, c := range []struct{ term, slowest, want time.Duration }{
		{time.Minute, 0, 15 * time.Second}, {time.Minute, time.Second, 15 * time.Second}, {time.Minute, 10 * time.Second, 20 * time.Second}, {time.Minute, time.Hour, 30 * time.Second},
	} {
		if got := WriteBackOf(c.term, c.slowest); got != c.want {
			t.Errorf("a lease of %s, and a write-back of %s was measured: %s, want %s", c.term, c.slowest, got, c.want)
		}
	}
}
