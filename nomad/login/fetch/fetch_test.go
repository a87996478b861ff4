package fetch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

func TestValuesAreKeptForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched, down := 0, false
		k := fetch.Kept[int]{What: "count", Timeout: time.Second, Fetch: func(context.Context) (int, error) {
			if fetched++; down {
				return 0, errors.New("down")
			}
			return fetched, nil
		}}
		for _, step := range []struct {
			after       time.Duration
			atLeast     int // what fits
			want        int
			unavailable bool
		}{
			{0, 1, 1, false},
			{59 * time.Minute, 1, 1, false},
			{0, 2, 2, false},                // one that does not fit is fetched again
			{time.Second, 3, 2, false},      // not so soon after the last time
			{3 * time.Second, 3, 3, false},  // later
			{61 * time.Minute, 1, 4, false}, // an old one is fetched again
		} {
			time.Sleep(step.after)
			if got, err := k.Get(t.Context(), func(v int) bool { return v >= step.atLeast }); got != step.want || err != nil {
				t.Errorf("%+v: %d, %v", step, got, err)
			}
		}
		down = true
		time.Sleep(3 * time.Second)
		if got, err := k.Get(t.Context(), func(v int) bool { return v >= 9 }); got != 4 || err != nil {
			t.Errorf("a kept value while the provider is down: %d, %v", got, err)
		}
		time.Sleep(2 * time.Hour)
		for range 10 {
			if _, err := k.Get(t.Context(), func(int) bool { return true }); !errors.Is(err, fault.Unavailable) {
				t.Errorf("an old value was used: %v", err)
			}
		}
		before := fetched
		down = false
		time.Sleep(3 * time.Second)
		if got, err := k.Get(t.Context(), func(int) bool { return true }); err != nil || got != before+1 || before != 6 {
			t.Errorf("%d fetches of 10 failures, then %d, %v", before, got, err)
		}
	})
}

func TestCallersShareAFetchAndMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched := 0
		k := fetch.Kept[int]{What: "count", Timeout: 10 * time.Second, Fetch: func(ctx context.Context) (int, error) {
			fetched++
			select {
			case <-time.After(5 * time.Second):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		always := func(int) bool { return true }
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error)
		go func() { _, err := k.Get(brief, always); first <- err }()
		synctest.Wait()
		second := make(chan error)
		go func() { _, err := k.Get(t.Context(), always); second <- err }()
		if err := <-first; !errors.Is(err, fault.Timeout) {
			t.Errorf("the first caller: %v", err)
		}
		if err := <-second; err != nil || fetched != 1 {
			t.Errorf("the second caller: %v after %d fetches", err, fetched)
		}
	})
}
