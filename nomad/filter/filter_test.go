package filter

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

type named struct{ Name string }

func TestLongFiltersAreRefused(t *testing.T) {
	rows := []*named{{"x"}}
	all := func(r *named) any { return r }
	long := strings.Repeat("not ", maxBytes/4) + `Name == "x"`
	if _, err := Rows(t.Context(), rows, long, all); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "filter has") {
		t.Error(err)
	}
	short := strings.Repeat(`Name == "y" or `, 500) + `Name == "x"`
	if kept, err := Rows(t.Context(), rows, short, all); err != nil || len(kept) != 1 {
		t.Errorf("%d rows: %v", len(kept), err)
	}
}

// A filter that takes long for each of many rows lets others in between, and ends with its request.
func TestFiltersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := wire.NewCPU(1)
		ctx, giveUp := context.WithCancel(turns.For(t.Context(), "a"))
		var rows atomic.Int32
		ended := make(chan error, 1)
		go func() {
			_, err := Rows(ctx, make([]*named, 1000), `Name == "x"`, func(*named) any {
				time.Sleep(turnTime)
				rows.Add(1)
				return named{"x"}
			})
			ended <- err
		}()
		time.Sleep(turnTime / 2)
		if err := wire.RunShort(turns.For(t.Context(), "b"), func() error { return nil }); err != nil || rows.Load() > 2 {
			t.Errorf("after %d rows: %v", rows.Load(), err)
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) || rows.Load() > 10 {
			t.Errorf("after %d rows: %v", rows.Load(), err)
		}
	})
}
