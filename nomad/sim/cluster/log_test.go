package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// log is what consensus gives: one order of entries, one leader per term. It is guarded by World.mu.
type log struct {
	entries []entry
	pending []*proposal
	carried []entry // of the last term, there for the next leader
	term    int
	leader  *server
}

// entry is a command with the time that its leader gave it.
type entry struct {
	cmd fsm.Command
	at  time.Time
	by  string
}

// proposal waits to be committed.
type proposal struct {
	entry
	due  time.Time
	done chan outcome
	over bool
}

type outcome struct {
	result fsm.Result
	err    error
}

var errUnknown = fault.New(fault.Unavailable, "the outcome is unknown: leadership was lost")

// Propose appends a command to the log of the leader and waits for its commit. It implements [fsm.Proposer].
func (s *server) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	w := s.w
	if w.bug != NoBug {
		instead, after := s.spoilt(cmd)
		if instead == nil {
			return fsm.Result{}, fault.New(fault.Conflict, "ignored")
		}
		if cmd = instead; after != nil {
			go func() { _, _ = s.Propose(ctx, after) }()
		}
	}
	r := w.dice.roll("log " + s.id + " " + brief(cmd))
	delay := w.some(r, 9*time.Millisecond)
	if w.faulty(r, 3) {
		delay = w.some(r, 600*time.Millisecond)
	}
	w.mu.Lock()
	if w.log.leader != s || !s.up {
		w.mu.Unlock()
		return fsm.Result{}, fault.New(fault.NotLeader, "%s is not the leader", s.id)
	}
	p := &proposal{entry: entry{cmd, time.Now().Add(s.clock), s.id}, due: time.Now().Add(delay), done: make(chan outcome, 1)}
	w.log.pending = append(w.log.pending, p)
	slices.SortFunc(w.log.pending, func(a, b *proposal) int { return a.due.Compare(b.due) })
	w.mu.Unlock()
	time.AfterFunc(time.Until(p.due), func() { w.commit(p) })
	select {
	case o := <-p.done:
		return o.result, o.err
	case <-ctx.Done():
		return fsm.Result{}, fault.New(fault.Timeout, "the outcome is unknown: %w", ctx.Err())
	case <-w.root.Done():
		return fsm.Result{}, fault.New(fault.Unavailable, "the world ends")
	}
}

// commit ends a proposal well, unless its leader was deposed meanwhile.
func (w *World) commit(p *proposal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.over || w.root.Err() != nil {
		return
	}
	w.log.pending = slices.DeleteFunc(w.log.pending, func(o *proposal) bool { return o == p })
	p.over = true
	w.append(p.entry)
	leader := w.log.leader
	res, err := leader.applyAll()
	p.done <- outcome{res, err}
	w.committed(p.entry, err)
	w.follow()
}

func (w *World) append(e entry) {
	w.log.entries = append(w.log.entries, e)
	w.tally.Events++
	w.tally.Entries++
}

// follow has the other servers apply what is committed, each in its own time; the lock is held.
func (w *World) follow() {
	n := len(w.log.entries)
	for _, s := range w.servers {
		if s == w.log.leader || !s.up || s.alone {
			continue
		}
		life := s.life
		time.AfterFunc(s.lag+w.some(w.dice.roll("lag "+s.id), 20*time.Millisecond), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if life.Err() == nil && !s.alone {
				_, _ = s.applyTo(min(n, len(w.log.entries)))
			}
		})
	}
}

// applyAll applies everything that is committed and answers what the last entry answered.
func (s *server) applyAll() (fsm.Result, error) { return s.applyTo(len(s.w.log.entries)) }

func (s *server) applyTo(n int) (res fsm.Result, err error) {
	for s.applied < n {
		e := s.w.log.entries[s.applied]
		s.applied++
		s.at = e.at
		if s.w.bug == BugOwnClock && s.w.log.leader != s {
			s.at = time.Now().Add(s.clock)
		}
		res, err = s.local.Propose(context.Background(), e.cmd)
		if s.w.bug == BugTwiceApplied && s.w.log.leader != s && s.applied%40 == 0 {
			_, _ = s.local.Propose(context.Background(), e.cmd)
		}
		if s.applied%96 == 0 {
			s.w.checkAlike(s)
		}
	}
	return res, err
}

// committed takes note of what an entry means outside of the records; the lock is held.
func (w *World) committed(e entry, err error) {
	w.tell("log %d of %s: %s%s", len(w.log.entries), e.by, brief(e.cmd), orError(err))
	if v, ok := e.cmd.(*commands.Evict); ok && err == nil && v.Proof != ledger.ProofReleased {
		for i, a := range v.AllocIDs {
			uses := []string{"", written, read}
			if i < len(v.Uses) {
				uses = v.Uses[i : i+1]
			}
			for _, use := range uses {
				w.outcast[key(a, v.VolumeID+use)] = true
				w.assumed[key(a, v.VolumeID+use)] = v.Proof == ledger.ProofAssumed
			}
			w.tally.Given++
		}
	}
	if v, ok := e.cmd.(*commands.WriteOff); ok && err == nil && !v.StaleMounts {
		w.storage.Detach(v.ExternalID, provider(v.NodeID)) // by the operator, with the storage's own means
		for _, n := range w.nodes {
			for _, m := range n.live() {
				if n.id == v.NodeID && m.external == v.ExternalID {
					w.outcast[m.key()], w.assumed[m.key()] = true, true
				}
			}
		}
	}
	w.checkRecords()
}

// depose ends the leader's term: of what it had under way a part may have reached the others already.
func (w *World) depose(r *rand.Rand, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.log.leader
	if old == nil {
		return
	}
	w.tell("%s leads no more: %s", old.id, why)
	w.log.leader = nil
	old.ready, old.knows = false, nil
	left := w.log.pending
	w.log.pending = nil
	kept := 0
	if len(left) > 0 {
		kept = r.IntN(len(left) + 1)
	}
	for i, p := range left {
		p.over = true
		p.done <- outcome{err: errUnknown}
		if i < kept {
			w.tell("of unknown outcome, will be there: %s", brief(p.cmd))
			w.append(p.entry)
			w.log.carried = append(w.log.carried, p.entry)
		} else {
			w.tell("of unknown outcome, is lost: %s", brief(p.cmd))
		}
	}
	stop, quiet := old.stop, w.some(r, 600*time.Millisecond)
	time.AfterFunc(quiet, stop)
	term := w.log.term
	for _, s := range w.servers {
		if s == old {
			continue
		}
		time.AfterFunc(w.some(r, 1200*time.Millisecond), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.log.term == term {
				s.knows = nil
			}
		})
	}
}

// elect begins a term: the winner has everything that was committed, and duties begin once it is applied
// and a majority has acknowledged the winner.
func (w *World) elect(r *rand.Rand) {
	var able []*server
	w.mu.Lock()
	for _, s := range w.servers {
		if s.up && !s.alone {
			able = append(able, s)
		}
	}
	if w.log.leader != nil || len(able) < 2 {
		w.mu.Unlock()
		return
	}
	s := able[r.IntN(len(able))]
	w.log.term++
	w.log.leader = s
	w.tally.Elections++
	term := w.log.term
	w.tell("%s wins term %d", s.id, term)
	for _, e := range w.log.carried {
		w.committed(e, nil)
	}
	w.log.carried = nil
	w.mu.Unlock()
	time.AfterFunc(w.some(r, 500*time.Millisecond), func() { w.lead(s, term, r) })
}

func (w *World) lead(s *server, term int, r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.term != term || w.log.leader != s || w.root.Err() != nil {
		return
	}
	_, _ = s.applyAll()
	w.checkRecords()
	acked := false
	for _, o := range w.servers {
		if o == s || !o.up || o.alone {
			continue
		}
		if !acked {
			acked = true // without one acknowledgement there is no majority
			o.knows = s
			continue
		}
		time.AfterFunc(w.some(r, 400*time.Millisecond), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.log.term == term && w.log.leader == s && !o.alone {
				o.knows = s
			}
		})
	}
	w.tell("%s leads", s.id)
	s.ready, s.knows = true, s
	w.follow()
	s.begin()
}

// catchUp has a follower apply what it missed; the lock is held.
func (w *World) catchUp(s *server) {
	life := s.life
	time.AfterFunc(w.some(w.dice.roll("catch up "+s.id), time.Second), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if life.Err() == nil && !s.alone {
			_, _ = s.applyTo(len(w.log.entries) - len(w.log.carried))
		}
	})
}
