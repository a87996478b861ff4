package variables

import (
	"cmp"
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// retry is the pause after a lock that could not be removed.
const retry = time.Second

// span reads a duration of a stored lock.
func span(text string) time.Duration {
	d, _ := time.ParseDuration(text) // checked before it was stored
	return d
}

// Renew begins the TTL of a lock again. That is in the memory of the leader: a new leader gives every lock a whole TTL.
func (s *Service) Renew(ctx context.Context, r *api.VariableRenewRequest) (*api.VariableRenewResponse, error) {
	namespace := cmp.Or(r.Namespace, api.DefaultNamespace)
	if !may(ctx, namespace, r.Path, "write") {
		return nil, access.ErrDenied
	}
	lost := fault.New(fault.Conflict, "variable %.140q is not locked with this lock ID: acquire the lock again", r.Path)
	hash := state.SecretHash(r.LockID)
	row := s.State.Read().Variable(namespace, r.Path)
	if row == nil || row.Lock == nil || row.Lock.ID != hash || !s.renew(row.Lock) {
		return nil, lost
	}
	if err := s.Raft.VerifyLeader(ctx); err != nil {
		return nil, err
	}
	if row = s.State.Read().Variable(namespace, r.Path); row == nil || row.Lock == nil || row.Lock.ID != hash {
		return nil, lost
	}
	meta, lock := row.VariableMeta, *row.Lock
	lock.ID, meta.Lock = r.LockID, &lock
	return &api.VariableRenewResponse{Meta: &meta}, nil
}

// renew moves the end of a lock. It reports false when the TTL has ended.
func (s *Service) renew(l *api.VariableLock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if end, known := s.ends[l.ID]; known && !now.Before(end) {
		return false
	}
	s.ends[l.ID] = now.Add(span(l.TTL))
	return true
}

// ended reports whether the TTL of a lock has ended.
func (s *Service) ended(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, known := s.ends[id]
	return known && !s.Now().Before(end)
}

func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = map[string]time.Time{}
}

// Run removes locks whose TTL and delay have passed while this server leads.
func (s *Service) Run(ctx context.Context) error {
	s.forget()
	defer s.forget()
	for ctx.Err() == nil {
		w := s.State.Watch(state.LockedVariablesKey())
		due, next := s.due(s.State.Read())
		for _, v := range due {
			_, err := s.Raft.Propose(ctx, &Release{Namespace: v.Namespace, Path: v.Path, LockID: v.Lock.ID})
			if err != nil && ctx.Err() == nil {
				s.Log.Warn("an expired lock was not removed", "namespace", v.Namespace, "path", v.Path, "error", err)
				next = retry
			}
		}
		wait(ctx, w, next)
	}
	return nil
}

// due lists the variables whose locks are to be removed now, and returns when the next one may be; 0 is never. Locks that
// this leader does not know yet get a whole TTL.
func (s *Service) due(tx *state.Txn) (due []*api.VariableRow, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ends := s.Now(), map[string]time.Time{}
	for v := range tx.LockedVariables() {
		end, known := s.ends[v.Lock.ID]
		if !known {
			end = now.Add(span(v.Lock.TTL))
		}
		ends[v.Lock.ID] = end
		left := end.Add(span(v.Lock.LockDelay)).Sub(now)
		if left <= 0 {
			due = append(due, v)
		} else if next == 0 || left < next {
			next = left
		}
	}
	s.ends = ends
	return due, next
}

// Locks returns how many locks are held, and how many have expired and keep their variables in a delay, by the
// clock of this leader.
func (s *Service) Locks() (held, delayed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for _, end := range s.ends {
		if end.After(now) {
			held++
		} else {
			delayed++
		}
	}
	return held, delayed
}

// wait returns at a change, or after a time that is not 0.
func wait(ctx context.Context, w *state.Watcher, d time.Duration) {
	defer w.Stop()
	var again <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		again = t.C
	}
	select {
	case <-w.C():
	case <-again:
	case <-ctx.Done():
	}
}
