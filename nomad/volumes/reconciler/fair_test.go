package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// driver answers attaches. What it does depends on the kind of the volume, its id without the number.
type driver struct {
	mu     sync.Mutex
	broken map[string]error
	takes  map[string]time.Duration
	// begins is told of each call.
	begins func(volume string)
	inside map[string]int
	tries  map[string]int
}

func drive(n *volumestest.Node) *driver {
	d := &driver{broken: map[string]error{}, takes: map[string]time.Duration{}, inside: map[string]int{}, tries: map[string]int{}, begins: func(string) {}}
	n.On("Controller.Publish", func(ctx context.Context, req any) error {
		volume := strings.TrimPrefix(req.(*api.ControllerPublishRequest).ExternalID, "ext-")
		kind := strings.TrimRight(volume, "0123456789")
		d.mu.Lock()
		d.tries[volume]++
		d.inside[kind]++
		d.begins(volume)
		takes, err := d.takes[kind], d.broken[kind]
		d.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.inside[kind]--
		return err
	})
	return d
}

func (d *driver) breaks(kind string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[kind] = err
}

func (d *driver) tried(volume string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries[volume]
}

// many are ids with a number.
func many(kind string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(kind, i))
	}
	return ids
}

func (r *rig) place(volume, node string) {
	r.T.Helper()
	r.MustPlace(volumestest.Alloc("a-"+volume, node, volume, writer, volumestest.Of("job-"+volume)))
}

// ready waits until claims of volumes are ready, and answers how long that took.
func (r *rig) ready(volumes ...string) time.Duration {
	r.T.Helper()
	began := time.Now()
	r.within(time.Hour, fmt.Sprint(volumes, " to be ready"), func(tx *state.Txn) bool {
		for _, v := range volumes {
			if c := tx.Claim("default", v, "a-"+v, ""); c == nil || c.State != api.ClaimReady {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// within is Eventually with a bound.
func (r *rig) within(bound time.Duration, what string, holds func(*state.Txn) bool) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), bound)
	defer cancel()
	keys := []state.Key{state.TableKey(state.TableClaims), state.TableKey(state.TableAttachments)}
	if err := state.Until(ctx, r.State, keys, holds); err != nil {
		r.T.Fatalf("%s: %v; %s", what, err, r.Describe())
	}
}

var unavailable = volumestest.Says("Controller.Publish", codes.Unavailable, "not now")

// usual are the times of a server.
func usual(l *reconciler.Limits) { *l = reconciler.Default() }

// oneByOne has calls of a node wait for each other however long they take.
func oneByOne(l *reconciler.Limits) { l.TurnAfter, l.SlowAfter = time.Hour, time.Hour }

func TestCallsOfANodeGoOneByOneWhileTheyAreQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual)
		d := drive(r.Node("n1"))
		d.takes["quick"] = 50 * time.Millisecond
		d.begins = func(string) {
			if d.inside["quick"] > 1 {
				t.Errorf("%d calls at once", d.inside["quick"])
			}
		}
		for _, id := range many("quick", 10) {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		r.ready(many("quick", 10)...)
	})
}

func TestSlowCallsOfANodeDelayItsOthersForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual)
		d := drive(r.Node("n1"))
		d.takes["slow"] = 900 * time.Millisecond
		for _, id := range append(many("slow", 4), "good") {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
			synctest.Wait()
		}
		if took := r.ready("good"); took > 250*time.Millisecond {
			t.Errorf("ready after %v", took)
		}
	})
}

func TestFirstTryGoesBeforeThoseThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual, oneByOne, func(l *reconciler.Limits) { l.RetryMax = time.Second })
		d := drive(r.Node("n1"))
		d.breaks("bad", unavailable)
		d.takes["bad"] = 300 * time.Millisecond
		r.Register(volumestest.Spec("good"))
		for _, id := range many("bad", 20) {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		time.Sleep(10 * time.Second)
		r.place("good", "n1")
		if took := r.ready("good"); took > 400*time.Millisecond {
			t.Errorf("ready after %v behind 20 that fail", took)
		}
	})
}

// Its allocation failed for good, and the next one asks for the same again.
func TestVolumeThatFailedOfLateStaysBehindWithANewIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual, oneByOne)
		d := drive(r.Node("n1"))
		d.breaks("bad", volumestest.Says("Controller.Publish", codes.InvalidArgument, "three heads"))
		d.takes["bad"] = 300 * time.Millisecond
		bad := many("bad", 20)
		r.Register(volumestest.Spec("good"))
		for _, id := range bad {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		time.Sleep(10 * time.Second)
		for _, id := range bad {
			r.Ends("a-"+id, api.AllocClientStatusFailed)
			r.Free(id)
		}
		for _, id := range bad {
			r.MustPlace(volumestest.Alloc("again-"+id, "n1", id, writer, volumestest.Of("job-"+id)))
		}
		synctest.Wait()
		r.place("good", "n1")
		if took := r.ready("good"); took > 400*time.Millisecond {
			t.Errorf("ready after %v behind 20 that failed", took)
		}
	})
}

func TestFailureIsForgottenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual, oneByOne, func(l *reconciler.Limits) { l.RetryMax = time.Second })
		d := drive(r.Node("n1"))
		d.breaks("bad", unavailable)
		d.breaks("once", unavailable)
		d.takes["bad"] = 300 * time.Millisecond
		r.Register(volumestest.Spec("once"))
		r.place("once", "n1")
		synctest.Wait()
		r.Ends("a-once", api.AllocClientStatusFailed)
		r.Free("once")
		d.breaks("once", nil)
		for _, id := range many("bad", 20) {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		time.Sleep(10 * time.Second)
		r.Edit(func(tx *state.Txn) { tx.DeleteAlloc("a-once") })
		r.place("once", "n1")
		if took := r.ready("once"); took > 400*time.Millisecond {
			t.Errorf("ready after %v behind 20 that fail", took)
		}
	})
}

func TestThoseThatFailedHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 100 * time.Millisecond
		r := newRig(t, usual, oneByOne)
		d := drive(r.Node("n1"))
		d.breaks("bad", unavailable)
		d.takes["good"] = takes
		r.Register(volumestest.Spec("bad"))
		r.place("bad", "n1")
		synctest.Wait()
		d.breaks("bad", nil)
		for _, id := range many("good", 90) {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		if took, bound := r.ready("bad"), 1250*time.Millisecond+5*takes; took > bound {
			t.Errorf("ready after %v among 90 others, want %v", took, bound)
		}
	})
}

func TestThoseThatFailedHaveHalfOfThePlacesWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const half = 4
		r := newRig(t, usual, func(l *reconciler.Limits) { l.Attaching, l.RetryMax = 2*half, time.Second })
		d := drive(r.Node("n0"))
		d.breaks("bad", unavailable)
		d.takes["bad"], d.takes["good"] = 900*time.Millisecond, 100*time.Millisecond
		use := func(id string) {
			r.Register(volumestest.Spec(id))
			r.Node("of-"+id, volumestest.NodeOnly)
			r.place(id, "of-"+id)
		}
		for _, id := range many("bad", 40) {
			use(id)
		}
		time.Sleep(10 * time.Second)
		goods, waiting, most := many("good", 40), 40, 0
		for _, id := range goods {
			use(id)
		}
		d.mu.Lock()
		d.begins = func(volume string) {
			if strings.HasPrefix(volume, "good") {
				waiting--
			} else if waiting > 0 {
				most = max(most, d.inside["bad"])
			}
		}
		d.mu.Unlock()
		r.ready(goods...)
		d.mu.Lock()
		defer d.mu.Unlock()
		if most != half {
			t.Errorf("%d of %d places were taken by those that fail while others waited", most, 2*half)
		}
	})
}

func TestSuccessOfAPluginWakesWhatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual, func(l *reconciler.Limits) { l.RetryMax = time.Hour })
		d := drive(r.Node("n1"))
		d.breaks("bad", unavailable)
		bad := many("bad", 90)
		for _, id := range bad {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
		}
		r.Register(volumestest.Spec("good"))
		time.Sleep(90 * time.Minute)
		d.breaks("bad", nil)
		r.place("good", "n1")
		if took := r.ready(bad...); took > 5*time.Second {
			t.Errorf("ready after %v", took)
		}
	})
}

func TestSuccessForOthersIsNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, spell = 40 * time.Second, 10 * time.Minute
		r := newRig(t, usual, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = period, period })
		d := drive(r.Node("n1"))
		d.breaks("bad", unavailable)
		r.Register(volumestest.Spec("bad"), volumestest.Spec("good"))
		r.place("bad", "n1")
		for end := time.Now().Add(spell); time.Now().Before(end); time.Sleep(time.Second) {
			r.place("good", "n1")
			r.ready("good")
			r.Ends("a-good", api.AllocClientStatusComplete)
			r.Unmounted("good", "a-good", "n1")
			r.Free("good")
			r.Edit(func(tx *state.Txn) { tx.DeleteAlloc("a-good") })
		}
		if n, most := d.tried("bad"), int(2*spell/(period*3/4)); n > most || n < int(spell/period) {
			t.Errorf("%d tries in %v, want %d at most", n, spell, most)
		}
	})
}

// What the driver may fail a few times only is not used up because it works for others.
func TestSuccessForOthersLeavesCountedTriesTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usual)
		d := drive(r.Node("n1"))
		d.breaks("bad", volumestest.Says("Controller.Publish", codes.Internal, "who knows"))
		began := time.Now()
		r.Register(volumestest.Spec("bad"))
		r.place("bad", "n1")
		for _, id := range many("good", 20) {
			r.Register(volumestest.Spec(id))
			r.place(id, "n1")
			time.Sleep(100 * time.Millisecond)
		}
		r.within(time.Minute, "the attach to be refused", func(tx *state.Txn) bool {
			a := tx.Attachment("p", "ext-bad", "n1")
			return a != nil && a.Refused != 0
		})
		if took := time.Since(began); took < 2250*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
	})
}
