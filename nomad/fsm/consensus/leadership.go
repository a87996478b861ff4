package consensus

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// Names of metrics.
const (
	metricBarrier   = "nomad.leader.barrier"
	metricEstablish = "nomad.leader.establish_leadership"
	metricRevoke    = "nomad.leader.revoke_leadership"
)

// IsLeader reports whether this server leads and everything committed before its term is applied
// here: only then may it reply for the cluster. It is false while [Raft.Lead] does not run.
func (r *Raft) IsLeader() bool { return r.raft.State() == raft.Leader && r.answers() }

// answers reports whether all entries committed before the current term are applied here.
func (r *Raft) answers() bool { return r.caughtUp.Load() == r.raft.CurrentTerm() }

// LeaderAddress returns the address of the leader, or an empty string. A server that has just won the election
// is not the leader before it has caught up.
func (r *Raft) LeaderAddress() string {
	if r.raft.State() == raft.Leader && !r.answers() {
		return ""
	}
	address, _ := r.raft.LeaderWithID()
	return string(address)
}

// LastContact returns the time of a follower's last contact with the leader.
func (r *Raft) LastContact() time.Time { return r.raft.LastContact() }

// Leadership sends changes of leadership; a slow reader receives only the newest one. There must be at most
// one reader, [Raft.Lead] among them.
func (r *Raft) Leadership() <-chan bool { return r.raft.LeaderCh() }

// Lead calls run once per term of leadership, after everything committed before is applied, and
// ends its context when leadership is lost. It returns when ctx ends and run has returned. A run
// that fails is logged and tried again while leadership lasts.
func (r *Raft) Lead(ctx context.Context, run func(context.Context) error) error {
	if r.alone() {
		defer begin(ctx, func(context.Context) { r.stand() })()
	}
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case leads := <-r.Leadership():
			r.caughtUp.Store(0)
			began := time.Now()
			stop()
			if !leads {
				r.machine.Metrics.Since(metricRevoke, began)
			}
			stop = func() {}
			if leads {
				stop = begin(ctx, func(term context.Context) {
					defer r.caughtUp.Store(0)
					r.term(term, run)
				})
			}
		}
	}
}

// begin runs work until stop is called; stop waits for its end.
func begin(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// term retries run until the term ends, and starts it again after a restore.
func (r *Raft) term(ctx context.Context, run func(context.Context) error) {
	for pauses := retry.Between(100*time.Millisecond, 5*time.Second); ctx.Err() == nil; {
		renewed := r.renewal()
		number := r.raft.CurrentTerm()
		began := time.Now()
		err := r.Barrier(ctx)
		r.machine.Metrics.Since(metricBarrier, began)
		if err == nil {
			err = r.finishRestore(ctx)
		}
		if err == nil {
			r.caughtUp.Store(number)
			err = r.readdress(ctx)
		}
		if err == nil {
			r.machine.Metrics.Since(metricEstablish, began)
			err = until(ctx, renewed, run)
		}
		switch {
		case ctx.Err() != nil:
			return
		case ended(renewed):
			r.log.Info("another state was restored: the leader's loops start again")
			pauses.Reset()
			continue
		}
		pause := pauses.Next()
		r.log.Error("leader loops ended early", "error", err, "retry_in", pause)
		retry.Sleep(ctx, pause)
	}
}

// until runs work until ctx ends or the channel closes.
func until(ctx context.Context, end <-chan struct{}, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return work(ctx)
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// renewal is closed when the state is replaced by another one: what the leader's loops remember is of the old.
func (r *Raft) renewal() <-chan struct{} {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if r.renewed == nil {
		r.renewed = make(chan struct{})
	}
	return r.renewed
}

func (r *Raft) renew() {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if r.renewed != nil {
		close(r.renewed)
		r.renewed = nil
	}
}

// readdress records the leader's address where it came back with another one.
func (r *Raft) readdress(ctx context.Context) error {
	f := r.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return classify(err)
	}
	here := r.transport.LocalAddr()
	for _, s := range f.Configuration().Servers {
		if s.ID == raft.ServerID(r.id) && s.Address != here {
			r.log.Info("this server has a new address", "old", s.Address, "new", here)
			return r.await(ctx, r.raft.AddVoter(s.ID, here, 0, enqueueTimeout))
		}
	}
	return nil
}

// Configuration lists the voters and observers of the cluster.
func (r *Raft) Configuration() (*api.RaftConfiguration, error) {
	f := r.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, classify(err)
	}
	_, leader := r.raft.LeaderWithID()
	out := &api.RaftConfiguration{Index: f.Index()}
	for _, s := range f.Configuration().Servers {
		out.Servers = append(out.Servers, &api.RaftServer{
			ID: string(s.ID), Node: string(s.ID), Address: string(s.Address),
			Leader: s.ID == leader, Voter: s.Suffrage == raft.Voter, RaftProtocol: "3",
		})
	}
	return out, nil
}

// Stats are counters of raft for people.
func (r *Raft) Stats() map[string]string { return r.raft.Stats() }
