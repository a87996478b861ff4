package periodic

import (
	"context"
	"errors"
	"time"
	_ "time/tzdata" // hosts without a time zone database

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// lookAfter bounds how late a launch can be when the host's clock is set.
	lookAfter = time.Minute
	// retryAfter is how long after a launch that did not succeed it is tried again.
	retryAfter = time.Second
	// launchesMax is how many launches are proposed at once.
	launchesMax = 16
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	// Launch makes the instance of a job for a time; it does nothing when there was one already.
	Launch func(ctx context.Context, namespace, id string, at time.Time) error
}

// Service serves the RPC methods of this package.
type Service struct {
	Config
}

// New makes the service.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return &Service{c}
}

// Run launches jobs at their times until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	f := s.State.Feed(state.TableJobs)
	defer f.Close()
	a := newAgenda()
	looked := wall()
	for {
		b, err := s.wait(ctx, f, a)
		now := wall()
		b.Resync = b.Resync || now.Before(looked) // the clock was set back: what comes next may come earlier
		looked = now
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return err
		case b.Resync:
			a = newAgenda()
			tx := s.State.Read()
			for j := range tx.Jobs(api.AllNamespaces) {
				s.plan(tx, a, j)
			}
		default:
			s.changed(a, b)
		}
		s.launch(ctx, a)
	}
}

// wall is the time of the host's clock, whenever that is set.
func wall() time.Time { return time.Now().Round(0) }

// wait waits for a change or for the next launch.
func (s *Service) wait(ctx context.Context, f *state.Feed, a *agenda) (state.Batch, error) {
	at, some := a.next()
	if !some {
		return f.Next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, min(time.Until(at), lookAfter))
	defer cancel()
	return f.Next(ctx)
}

func (s *Service) changed(a *agenda, b state.Batch) {
	tx := s.State.Read()
	for _, c := range b.Changes {
		for _, row := range []any{c.After, c.Before} {
			j, _ := row.(*api.Job)
			if j == nil || j.Periodic == nil && !a.has(name{j.Namespace, j.ID}) {
				continue
			}
			if now := tx.Job(j.Namespace, j.ID); now != nil {
				j = now
			} else {
				a.set(name{j.Namespace, j.ID}, time.Time{}, time.Time{})
				break
			}
			s.plan(tx, a, j)
			break
		}
	}
}

// plan puts the next launch of a job on the agenda, or takes the job off.
func (s *Service) plan(tx *state.Txn, a *agenda, j *api.Job) {
	due := s.due(tx, j)
	a.set(name{j.Namespace, j.ID}, due, due)
}

// due is the first time of the job after its last launch and its last change; zero when there is none.
func (s *Service) due(tx *state.Txn, j *api.Job) time.Time {
	p := j.Periodic
	if p == nil || !p.Enabled || j.Stop {
		return time.Time{}
	}
	zone, err := time.LoadLocation(p.TimeZone)
	if err != nil {
		s.Log.Error("a periodic job is not launched: its time zone is not known here", "job", j.ID, "namespace", j.Namespace, "zone", p.TimeZone)
		return time.Time{}
	}
	since := time.Unix(0, j.SubmitTime)
	if last := tx.LastLaunch(j.Namespace, j.ID); last.After(since) {
		since = last
	}
	if now := time.Now(); since.After(now.Add(ledger.ClockSlack)) { // it is of a clock that was wrong
		since = now
	}
	return rules.NextLaunch(p, since.In(zone))
}

// launch launches what is due and plans what comes then.
func (s *Service) launch(ctx context.Context, a *agenda) {
	all := a.take(time.Now())
	failed := make([]bool, len(all))
	var group errgroup.Group
	group.SetLimit(launchesMax)
	for i, e := range all {
		group.Go(func() error {
			err := s.Launch(ctx, e.namespace, e.id, e.due)
			if err != nil && ctx.Err() == nil {
				s.Log.Warn("a periodic job was not launched and is tried again", "job", e.id, "namespace", e.namespace, "time", e.due, "error", err)
			}
			failed[i] = err != nil
			return nil
		})
	}
	_ = group.Wait()
	tx := s.State.Read()
	for i, e := range all {
		j := tx.Job(e.namespace, e.id)
		if j == nil {
			continue
		}
		due := s.due(tx, j)
		wake := due
		if failed[i] && !due.IsZero() && due.Before(time.Now().Add(retryAfter)) {
			wake = time.Now().Add(retryAfter)
		}
		a.set(e.name, due, wake)
	}
}
