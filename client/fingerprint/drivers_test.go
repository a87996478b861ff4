package fingerprint_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

var errBroken = errors.New("broken")

// fake is a driver of which only the fingerprint counts; each open takes the next step.
type fake struct {
	driver.Driver
	name string
	open func(n int) (<-chan driver.Fingerprint, error)

	mu    sync.Mutex
	opens int
}

func (f *fake) Name() string { return f.name }

func (f *fake) Fingerprint(context.Context) (<-chan driver.Fingerprint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens++
	return f.open(f.opens)
}

func (f *fake) opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opens
}

// reports is a channel with some values, closed or not.
func reports(shut bool, values ...driver.Fingerprint) <-chan driver.Fingerprint {
	ch := make(chan driver.Fingerprint, len(values))
	for _, v := range values {
		ch <- v
	}
	if shut {
		close(ch)
	}
	return ch
}

func healthy() driver.Fingerprint {
	return driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: map[string]string{"driver.x.version": "1"}}
}

// record collects changes.
type record struct {
	mu      sync.Mutex
	changes []fingerprint.DriverChange
}

func (r *record) add(c fingerprint.DriverChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, c)
}

func (r *record) all() []fingerprint.DriverChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// follow runs the watcher over the drivers; the returned function ends it and waits.
func follow(t *testing.T, drivers ...driver.Driver) (*fingerprint.Drivers, *record, func()) {
	t.Helper()
	r := &record{}
	d := fingerprint.NewDrivers(drivers, r.add, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Run(ctx) }()
	return d, r, func() { cancel(); <-done }
}

func TestDriverChangesReachTheCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unwell := driver.Fingerprint{Health: driver.Unhealthy, Description: "no disk"}
		x := &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) {
			return reports(false, healthy(), healthy(), unwell, driver.Fingerprint{Health: driver.Undetected, Description: "gone"}), nil
		}}
		d, r, end := follow(t, x)
		if err := d.WaitFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := r.all()
		if len(got) != 3 {
			t.Fatalf("changes %+v, want three: the repeated report is none", got)
		}
		if c := got[0]; !c.Info.Healthy || !c.Info.Detected || c.Event != nil || c.Attributes["driver.x"] != "1" || c.Attributes["driver.x.version"] != "1" {
			t.Errorf("first %+v", c)
		}
		if c := got[1]; c.Info.Healthy || !c.Info.Detected || c.Event == nil || c.Event.Message != "no disk" || c.Event.Subsystem != "Driver" ||
			c.Event.Details["driver"] != "x" || c.Attributes["driver.x"] != "1" || c.Attributes["driver.x.version"] != "" {
			t.Errorf("second %+v", c)
		}
		if c := got[2]; c.Info.Detected || c.Attributes["driver.x"] != "" {
			t.Errorf("third %+v", c)
		}
		end()
	})
}

// TestContextThatEndsWithTheChannelReportsNothing: the context ends and the channel closes together; nothing is opened again and nothing reported.
func TestContextThatEndsWithTheChannelReportsNothing(t *testing.T) {
	for range 1000 {
		ch := make(chan driver.Fingerprint, 1)
		ch <- healthy()
		x := &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) { return ch, nil }}
		r := &record{}
		d := fingerprint.NewDrivers([]driver.Driver{x}, r.add, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = d.Run(ctx) }()
		if err := d.WaitFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
		go close(ch)
		cancel()
		<-done
		if n := x.opened(); n != 1 {
			t.Fatalf("opened %d times", n)
		}
		for _, c := range r.all() {
			if !c.Info.Healthy {
				t.Fatalf("reported %+v", c.Info)
			}
		}
	}
}

// TestDriverWithoutAReportIsNotCalledUndetected: a driver that has not reported is not called undetected.
func TestDriverWithoutAReportIsNotCalledUndetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(int) (<-chan driver.Fingerprint, error) { return make(chan driver.Fingerprint), nil }
		d, _, end := follow(t, &fake{name: "slow", open: never},
			&fake{name: "good", open: func(int) (<-chan driver.Fingerprint, error) { return reports(false, healthy()), nil }},
			&fake{name: "off", open: func(int) (<-chan driver.Fingerprint, error) {
				return reports(false, driver.Fingerprint{Health: driver.Undetected}), nil
			}},
			&fake{name: "ill", open: func(int) (<-chan driver.Fingerprint, error) {
				return reports(false, driver.Fingerprint{Health: driver.Unhealthy}), nil
			}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		if err := d.WaitFirst(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		all := d.Infos()
		if _, known := all["slow"]; known {
			t.Error("a driver without report has a state")
		}
		for name, want := range map[string][2]bool{"good": {true, true}, "ill": {true, false}, "off": {false, false}} {
			if i := all[name]; i == nil || i.Detected != want[0] || i.Healthy != want[1] {
				t.Errorf("%s is %+v", name, i)
			}
		}
		end()
	})
}

// TestFailedOpenIsTriedAgainLaterAndLater: the first open fails; it is tried again, later and later, and the end is clean.
func TestFailedOpenIsTriedAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &fake{name: "x", open: func(n int) (<-chan driver.Fingerprint, error) {
			if n < 4 {
				return nil, errBroken
			}
			return reports(false, healthy()), nil
		}}
		d, _, end := follow(t, x)
		synctest.Wait()
		for opens, around := 1, 5*time.Second; opens < 4; opens, around = opens+1, 2*around {
			began := time.Now()
			for x.opened() == opens && time.Since(began) < time.Hour {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if took := time.Since(began); took < around/2 || took > around+around/2+time.Millisecond {
				t.Errorf("open %d came after %v, want around %v", opens+1, took, around)
			}
		}
		if i := d.Infos()["x"]; i == nil || !i.Healthy {
			t.Errorf("info %+v", i)
		}
		end()
	})
	synctest.Test(t, func(t *testing.T) {
		x := &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) { return nil, errBroken }}
		_, _, end := follow(t, x)
		synctest.Wait()
		end()
		if n := x.opened(); n != 1 {
			t.Errorf("opened %d times", n)
		}
	})
}

// TestDriverThatCannotBeOpenedHoldsUpNobody: a driver that cannot be opened does not hold up the first fingerprints.
func TestDriverThatCannotBeOpenedHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d, _, end := follow(t, &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) { return nil, errBroken }},
			&fake{name: "y", open: func(int) (<-chan driver.Fingerprint, error) { return reports(true), nil }})
		if err := d.WaitFirst(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("waited %v: %v", time.Since(began), err)
		}
		end()
	})
}

// TestErrorMakesADriverUnhealthyAndLeavesItDetected: an error makes a driver unhealthy and leaves it detected, with its attributes.
func TestErrorMakesADriverUnhealthyAndLeavesItDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) {
			return reports(false, healthy(), driver.Fingerprint{Err: errBroken}), nil
		}}
		d, r, end := follow(t, x)
		synctest.Wait()
		i := d.Infos()["x"]
		if i == nil || i.Healthy || !i.Detected || i.HealthDescription != "failed to fingerprint driver" {
			t.Errorf("info %+v", i)
		}
		if last := r.all()[len(r.all())-1]; last.Attributes["driver.x"] != "1" || last.Attributes["driver.x.version"] != "1" {
			t.Errorf("attributes %v", last.Attributes)
		}
		end()
	})
}

// TestEverythingKnownIsReadWhileItIsWritten is for the race detector: everything known is read while it is written.
func TestEverythingKnownIsReadWhileItIsWritten(t *testing.T) {
	ch := make(chan driver.Fingerprint)
	d, _, end := follow(t, &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) { return ch, nil }})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				maps.Copy(map[string]any{}, map[string]any{"a": d.Infos()})
			}
		})
	}
	for i := range 200 {
		f := healthy()
		f.Description = strings.Repeat("x", i%7)
		ch <- f
	}
	wg.Wait()
	end()
}

// TestClosedChannelIsOpenedAgain: a driver may close its channel and go on with another; nobody hears of it.
func TestClosedChannelIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan driver.Fingerprint, 1)
		first <- healthy()
		x := &fake{name: "x", open: func(n int) (<-chan driver.Fingerprint, error) {
			if n == 1 {
				return first, nil
			}
			return reports(false, healthy()), nil
		}}
		_, r, end := follow(t, x)
		time.Sleep(time.Minute)
		close(first)
		synctest.Wait()
		if n := x.opened(); n != 2 {
			t.Errorf("opened %d times, want 2 at once", n)
		}
		if n := len(r.all()); n != 1 {
			t.Errorf("%d changes, want 1", n)
		}
		end()
	})
}

// TestChannelThatClosesAtOnceIsNotSpunOn: one value and a close, for ever.
func TestChannelThatClosesAtOnceIsNotSpunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &fake{name: "x", open: func(int) (<-chan driver.Fingerprint, error) { return reports(true, healthy()), nil }}
		_, _, end := follow(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := x.opened(); n > 25 { // every five seconds, or after half of that
			t.Errorf("opened %d times in a minute", n)
		}
		end()
	})
}

func TestNoDrivers(t *testing.T) {
	d := fingerprint.NewDrivers(nil, func(fingerprint.DriverChange) {}, hclog.NewNullLogger())
	if err := d.WaitFirst(t.Context()); err != nil {
		t.Error(err)
	}
}
