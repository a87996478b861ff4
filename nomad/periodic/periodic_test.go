package periodic_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/periodic"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type world struct {
	t     *testing.T
	store *state.Store
	jobs  *jobs.Service
	// refuse makes launches fail.
	refuse atomic.Bool
}

func open(t *testing.T) *world {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(jobs.Commands)
	return &world{t: t, store: s, jobs: jobs.New(jobs.Config{State: s, Raft: fsm.NewLocal(s, r)})}
}

// lead runs the loop of one leader until the answer is called.
func (w *world) lead() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	service := periodic.New(periodic.Config{State: w.store, Launch: func(ctx context.Context, ns, id string, at time.Time) error {
		if w.refuse.Load() {
			return fault.New(fault.Unavailable, "not now")
		}
		return w.jobs.Launch(ctx, ns, id, at)
	}})
	go func() { done <- service.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("the loop ended: %v", err)
		}
	}
}

func (w *world) register(p *api.PeriodicConfig) {
	w.t.Helper()
	if p.TimeZone == "" {
		p.TimeZone = "UTC"
	}
	p.Enabled = true
	j := &api.Job{ID: "p", Type: "batch", Periodic: p, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", Driver: "mock"}}}}}
	if _, err := w.jobs.Register(context.Background(), &api.JobRegisterRequest{Job: j}); err != nil {
		w.t.Fatal(err)
	}
}

// launched are the times of all instances, in UTC.
func (w *world) launched() []string {
	var out []string
	for j := range w.store.Read().JobsByParent("default", "p") {
		out = append(out, strings.TrimPrefix(j.ID, "p/periodic-"))
		if j.Periodic != nil || j.ParentID != "p" {
			w.t.Errorf("instance %+v", j)
		}
	}
	return out
}

func unix(times ...string) []string {
	var out []string
	for _, s := range times {
		at, err := time.Parse(time.DateTime, s)
		if err != nil {
			panic(err)
		}
		out = append(out, strconv.FormatInt(at.Unix(), 10))
	}
	return out
}

func (w *world) want(times ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.launched(); !slices.Equal(got, unix(times...)) {
		w.t.Errorf("at %v: launched %v, want %v (%v)", time.Now().UTC(), got, unix(times...), times)
	}
}

// The clock of a bubble begins at 2000-01-01 00:00:00 UTC.

func TestLaunchesAtTheTimesOfAllCrons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *", "30 0 * * *"}})
		time.Sleep(2*time.Hour + time.Second)
		w.want("2000-01-01 00:30:00", "2000-01-01 01:00:00", "2000-01-01 02:00:00")
		for e := range w.store.Read().Evals("default") {
			if e.TriggeredBy != api.TriggerPeriodicJob || e.JobID == "p" {
				t.Errorf("evaluation %+v", e)
			}
		}
	})
}

func TestStopAndChangeAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}})
		time.Sleep(90 * time.Minute)
		w.register(&api.PeriodicConfig{Specs: []string{"45 * * * *"}})
		time.Sleep(time.Hour)
		if _, err := w.jobs.Deregister(context.Background(), &api.JobDeregisterRequest{JobID: "p"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		w.want("2000-01-01 01:00:00", "2000-01-01 01:45:00")
		w.register(&api.PeriodicConfig{Specs: []string{"45 * * * *"}})
		time.Sleep(time.Hour)
		w.want("2000-01-01 01:00:00", "2000-01-01 01:45:00", "2000-01-01 07:45:00")
		if _, err := w.jobs.Deregister(context.Background(), &api.JobDeregisterRequest{JobID: "p", Purge: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		w.want("2000-01-01 01:00:00", "2000-01-01 01:45:00", "2000-01-01 07:45:00")
	})
}

func TestMissedTimesAreLaunchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		end := w.lead()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}})
		time.Sleep(time.Hour + time.Second)
		end()
		time.Sleep(4*time.Hour + 10*time.Minute)
		w.want("2000-01-01 01:00:00")
		end = w.lead()
		w.want("2000-01-01 01:00:00", "2000-01-01 02:00:00")
		end()
		defer w.lead()()
		w.want("2000-01-01 01:00:00", "2000-01-01 02:00:00")
		time.Sleep(time.Hour)
		w.want("2000-01-01 01:00:00", "2000-01-01 02:00:00", "2000-01-01 06:00:00")
	})
}

func TestTwoLeadersLaunchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		defer w.lead()()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}})
		time.Sleep(2*time.Hour + time.Second)
		w.want("2000-01-01 01:00:00", "2000-01-01 02:00:00")
		evals := 0
		for range w.store.Read().Evals("default") {
			evals++
		}
		if evals != 2 {
			t.Errorf("%d evaluations of 2 instances", evals)
		}
	})
}

func TestOverlapIsProhibited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}, ProhibitOverlap: true})
		time.Sleep(3*time.Hour + time.Second)
		w.want("2000-01-01 01:00:00")
		if _, err := w.jobs.PeriodicForce(context.Background(), &api.JobRequest{JobID: "p"}); err != nil {
			t.Fatal(err)
		}
		w.want("2000-01-01 01:00:00", "2000-01-01 03:00:01")
		tx := w.store.Write(w.store.Read().Index()+1, time.Now())
		for e := range tx.Evals("default") {
			done := *e
			done.Status = api.EvalStatusComplete
			tx.PutEval(&done)
		}
		tx.Commit()
		time.Sleep(time.Hour)
		w.want("2000-01-01 01:00:00", "2000-01-01 03:00:01", "2000-01-01 04:00:00")
	})
}

func TestFailedLaunchIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		w.refuse.Store(true)
		defer w.lead()()
		w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}})
		time.Sleep(time.Hour + 90*time.Second)
		w.want()
		w.refuse.Store(false)
		time.Sleep(2 * time.Second)
		w.want("2000-01-01 01:00:00")
	})
}

func TestTimeZonesAndChangesOfTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		time.Sleep(time.Until(time.Date(2000, 4, 1, 12, 0, 0, 0, time.UTC)))
		// On April 2 at 02:00 the clocks of New York go to 03:00.
		w.register(&api.PeriodicConfig{Specs: []string{"30 2 * * *", "0 12 * * *"}, TimeZone: "America/New_York"})
		time.Sleep(48 * time.Hour)
		w.want("2000-04-01 17:00:00", "2000-04-02 16:00:00", "2000-04-03 06:30:00")
	})
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		defer w.lead()()
		time.Sleep(time.Until(time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC)))
		// On October 29 at 02:00 they go back to 01:00.
		w.register(&api.PeriodicConfig{Specs: []string{"30 1 * * *"}, TimeZone: "America/New_York"})
		time.Sleep(48 * time.Hour)
		w.want("2000-10-29 05:30:00", "2000-10-29 06:30:00", "2000-10-30 06:30:00")
	})
}

// A clock that was a year ahead for a moment, in which the job was launched or registered, does not stop it for a year.
func TestJobIsLaunchedAfterTheClockWasAhead(t *testing.T) {
	for name, ahead := range map[string]func(*state.Txn, time.Time){
		"launched": func(tx *state.Txn, then time.Time) { tx.PutLaunch("default", "p", then) },
		"registered": func(tx *state.Txn, then time.Time) {
			j := *tx.Job("default", "p")
			j.SubmitTime = then.UnixNano()
			tx.PutJob(&j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := open(t)
				w.register(&api.PeriodicConfig{Specs: []string{"0 * * * *"}})
				tx := w.store.Write(w.store.Read().Index()+1, time.Now())
				ahead(tx, time.Now().AddDate(1, 0, 0))
				tx.Commit()
				defer w.lead()()
				time.Sleep(2*time.Hour + time.Second)
				w.want("2000-01-01 01:00:00", "2000-01-01 02:00:00")
			})
		})
	}
}
