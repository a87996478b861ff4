package csi_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/plugins/csi"
)

func TestSuccessHasOthersTriedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := csi.Backoff{First: time.Second, Max: time.Hour, Others: &csi.Others{}}
		broken := true
		var mu sync.Mutex
		call := func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return csi.Explain("NodeStageVolume", codes.Unavailable, "not now")
			}
			return nil
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _ = csi.Do(t.Context(), b, call) })
		}
		time.Sleep(90 * time.Minute)
		mu.Lock()
		broken = false
		mu.Unlock()
		began := time.Now()
		_ = csi.Do(t.Context(), b, call)
		all.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the last followed after %v", took)
		}
	})
}

func TestEarlyTriesAreNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, spell = 40 * time.Second, time.Hour
		b := csi.Backoff{First: time.Second, Max: period, Others: &csi.Others{}}
		tries := 0
		ctx, cancel := context.WithTimeout(t.Context(), spell)
		defer cancel()
		var bad sync.WaitGroup
		bad.Go(func() {
			_ = csi.Do(ctx, b, func(context.Context) error {
				tries++
				return csi.Explain("NodeStageVolume", codes.Unavailable, "not now")
			})
		})
		for ctx.Err() == nil {
			_ = csi.Do(ctx, b, func(context.Context) error { return nil })
			time.Sleep(time.Second)
		}
		bad.Wait()
		if most := int(2 * spell / (period * 3 / 4)); tries > most || tries < int(spell/period) {
			t.Errorf("%d tries in %v, want %d at most", tries, spell, most)
		}
	})
}

func TestEarlyTriesDoNotUseUpThoseThatCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := csi.Backoff{First: time.Second, Max: time.Minute, Others: &csi.Others{}}
		began := time.Now()
		var bad sync.WaitGroup
		bad.Go(func() {
			_ = csi.Do(t.Context(), b, func(context.Context) error { return csi.Explain("NodeStageVolume", codes.Internal, "who knows") })
			if took := time.Since(began); took < 2250*time.Millisecond {
				t.Errorf("given up after %v", took)
			}
		})
		for range 30 {
			_ = csi.Do(t.Context(), b, func(context.Context) error { return nil })
			time.Sleep(100 * time.Millisecond)
		}
		bad.Wait()
	})
}
