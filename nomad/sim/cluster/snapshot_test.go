package cluster

import (
	"bytes"
	"math/rand/v2"
)

// Snapshots of consensus: each server takes its own now and then, and its log loses what is older, but for a few
// entries. A follower whose next entry the leader has not any more installs the leader's snapshot. World.mu is held.

const (
	snapshotEvery = 100 // entries, in the mean
	trailingMost  = 25  // entries that stay in the log
)

// snapshot is a state as it lies on a disk.
type snapshot struct {
	state []byte
	// entries is how many are in it.
	entries int
}

// mayCompact takes a snapshot now and then.
func (s *server) mayCompact() {
	if r := s.w.dice.roll("snapshot " + s.id); r.IntN(snapshotEvery) == 0 {
		s.compact(r)
	}
}

func (s *server) compact(r *rand.Rand) {
	s.w.checkAlike(s)
	s.disk = snapshot{s.dumped(), s.applied}
	s.first = max(s.first, s.applied-r.IntN(trailingMost))
	s.w.tally.Snapshots++
	s.w.tell("%s has a snapshot of %d entries, and the log from %d on", s.id, s.applied, s.first)
}

// dumped is a snapshot of a server's state, as it would be on its disk.
func (s *server) dumped() []byte {
	var b bytes.Buffer
	if err := s.store.Read().Dump(&b); err != nil {
		s.w.fail("%s cannot save its state: %v", s.id, err)
	}
	return b.Bytes()
}

// install puts the leader's snapshot in the place of a state that is too old for its log.
func (s *server) install(from *server) {
	if s.w.bug == BugFreshEmpty && s.applied == 0 {
		s.applied = from.first
		return
	}
	if err := s.local.Restore(bytes.NewReader(from.disk.state)); err != nil {
		s.w.fail("%s cannot install a snapshot: %v", s.id, err)
	}
	s.applied, s.disk, s.first = from.disk.entries, from.disk, from.disk.entries
	if s.w.bug == BugOldSnapshot {
		s.applied++
	}
	s.w.tally.Installs++
	s.w.tell("%s installs the snapshot of %s, of %d entries", s.id, from.id, s.applied)
	s.w.checkAlike(s)
}

// lags reports whether the leader's log begins after what the server has applied.
func (s *server) lags() bool {
	l := s.w.log.leader
	return l != nil && l != s && s.applied < l.first && l.disk.entries > s.applied
}
