package cluster

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
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
	changes []change
	term    int
	leader  *server
}

// entry is a command with the time that its leader gave it.
type entry struct {
	cmd fsm.Command
	raw []byte
	by  string
	// voters are those from this entry on, if it says so, by id.
	voters map[string]string
	// restored is the state from this entry on, if it is one.
	restored []byte
}

// proposal waits to be committed.
type proposal struct {
	entry
	due  time.Time
	done chan outcome
	over bool
	w    *World
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
	raw, err := s.local.Entry(cmd, time.Now().Add(s.clock))
	if err != nil {
		w.mu.Unlock()
		return fsm.Result{}, err
	}
	if err := w.restoring(); err != nil {
		w.mu.Unlock()
		return fsm.Result{}, err
	}
	p := w.propose(entry{cmd: cmd, raw: raw, by: s.id}, delay)
	w.mu.Unlock()
	return p.wait(ctx)
}

// propose puts an entry into the leader's log; the lock is held.
func (w *World) propose(e entry, delay time.Duration) *proposal {
	p := &proposal{entry: e, due: time.Now().Add(delay), done: make(chan outcome, 1), w: w}
	w.log.pending = append(w.log.pending, p)
	slices.SortFunc(w.log.pending, func(a, b *proposal) int { return a.due.Compare(b.due) })
	time.AfterFunc(delay, func() {
		roomy()
		w.commit(p)
	})
	return p
}

// wait waits for the outcome.
func (p *proposal) wait(ctx context.Context) (fsm.Result, error) {
	select {
	case o := <-p.done:
		return o.result, o.err
	case <-ctx.Done():
		return fsm.Result{}, fault.New(fault.Timeout, "the outcome is unknown: %w", ctx.Err())
	case <-p.w.root.Done():
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
	if p.restored != nil {
		w.tookBack()
	}
	w.committed(p.entry, err)
	w.follow()
}

func (w *World) append(e entry) {
	w.log.entries = append(w.log.entries, e)
	if e.voters != nil {
		w.changed(e.voters)
	}
	w.tally.Events++
	w.tally.Entries++
	for _, s := range w.servers {
		if s.up && !s.alone && s.has == len(w.log.entries)-1 {
			s.has++
		}
	}
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
			roomy()
			s.keepUp(func() int { return n }, func() bool { return life.Err() == nil && !s.alone })
		})
	}
}

// keepUp applies what is committed, one entry after the other, so that who waits for an entry sees the state of then.
func (s *server) keepUp(most func() int, while func() bool) {
	for {
		s.w.mu.Lock()
		behind := while() && s.applied < most()
		switch {
		case behind && s.lags():
			s.install(s.w.log.leader)
		case behind:
			_, _ = s.applyTo(s.applied + 1)
		}
		s.w.mu.Unlock()
		if !behind || !s.w.sleep(s.w.root, time.Nanosecond) {
			return
		}
	}
}

// applyAll applies everything that is committed and answers what the last entry answered.
func (s *server) applyAll() (fsm.Result, error) { return s.applyTo(len(s.w.log.entries)) }

func (s *server) applyTo(n int) (res fsm.Result, err error) {
	for s.applied < n {
		e := s.w.log.entries[s.applied]
		s.applied++
		s.has = max(s.has, s.applied)
		if e.voters != nil {
			continue
		}
		if e.restored != nil {
			if err := s.local.Restore(bytes.NewReader(e.restored)); err != nil {
				s.w.fail("%s cannot restore a snapshot: %v", s.id, err)
			}
			continue
		}
		if s.w.bug == BugOwnClock && s.w.log.leader != s {
			e.raw, _ = s.local.Entry(e.cmd, time.Now().Add(s.clock))
		}
		gone := s.disowning(e.cmd)
		res, err = s.local.Apply(e.raw)
		if gone != nil && err == nil {
			s.w.disown(gone)
		}
		if s.w.bug == BugTwiceApplied && s.w.log.leader != s && s.applied%40 == 0 {
			_, _ = s.local.Apply(e.raw)
		}
		if s.applied%96 == 0 {
			s.w.checkAlike(s)
		}
		s.mayCompact()
	}
	return res, err
}

// committed takes note of what an entry means outside of the records; the lock is held.
func (w *World) committed(e entry, err error) {
	w.tell("log %d of %s: %s%s", len(w.log.entries), e.by, e.what(), orError(err))
	if v, ok := e.cmd.(*commands.Evict); ok && err == nil && v.Proof != ledger.ProofReleased {
		if w.losses[v.VolumeID] == api.NodeLossWait && v.By == ledger.ByLease {
			w.fail("%s is given up by a lease, and waits for its node when that is lost", v.VolumeID)
		}
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
	w.log.leader, w.archives.busy = nil, false
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
			w.tell("of unknown outcome, will be there: %s", p.what())
			w.append(p.entry)
			w.log.carried = append(w.log.carried, p.entry)
		} else {
			w.tell("of unknown outcome, is lost: %s", p.what())
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

// elect begins a term: the winner has everything that was committed, and loops begin once it is applied
// and a majority has acknowledged the winner.
func (w *World) elect(r *rand.Rand) {
	var able []*server
	w.mu.Lock()
	for _, s := range w.servers {
		if s.up && !s.alone && s.votes() {
			able = append(able, s)
		}
	}
	if w.log.leader != nil || len(able) < 2 { // of two or three
		w.mu.Unlock()
		return
	}
	able = slices.DeleteFunc(able, func(s *server) bool { return s.has < len(w.log.entries) })
	if len(able) == 0 {
		w.fail("nobody has all entries that were committed")
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
		if e.restored != nil {
			w.tookBack()
		}
		w.committed(e, nil)
	}
	w.log.carried = nil
	w.mu.Unlock()
	time.AfterFunc(w.some(r, 500*time.Millisecond), func() { w.lead(s, term, w.dice.roll("lead "+s.id)) })
}

func (w *World) lead(s *server, term int, r *rand.Rand) {
	leads := func() bool { return w.log.term == term && w.log.leader == s && w.root.Err() == nil }
	s.keepUp(func() int { return len(w.log.entries) }, leads)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !leads() {
		return
	}
	w.checkRecords()
	acked := false
	for _, o := range w.servers {
		if o == s || !o.up || o.alone {
			continue
		}
		if !acked && o.votes() {
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
		s.keepUp(func() int { return len(w.log.entries) - len(w.log.carried) }, func() bool { return life.Err() == nil && !s.alone && w.log.leader != nil })
	})
}
