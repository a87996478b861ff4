package pace_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/pace"
)

func TestNoMoreThanThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(8, time.Second)
		var now, most atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for range 200 {
			all.Go(func() {
				leave, err := p.Take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				defer now.Add(-1)
				for n := now.Add(1); n > most.Load(); {
					most.Store(n)
				}
				time.Sleep(100 * time.Millisecond)
			})
		}
		all.Wait()
		if took := time.Since(began); most.Load() > 8 || took != 2500*time.Millisecond {
			t.Errorf("%d at a time, %v", most.Load(), took)
		}
	})
}

func TestStartThatHangsLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(1, time.Second)
		hangs, err := p.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := p.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second place: %v", err)
		}
		leave, err := p.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		hangs() // gives back nothing that it does not have
		if _, err := p.Take(ctx); err == nil {
			t.Error("a place was given twice")
		}
		leave()
	})
}
