package cpulimit_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

func TestWorkThatPanicsReleasesItsSlot(t *testing.T) {
	ctx := cpulimit.New(1).For(t.Context(), "a")
	for _, run := range []func(context.Context, func() error) error{cpulimit.Short, cpulimit.Long} {
		func() {
			defer func() { _ = recover() }()
			_ = run(ctx, func() error { panic("bad") })
		}()
		if err := run(ctx, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongWorkDoesNotDelayShortWork(t *testing.T) {
	ctx := cpulimit.New(1).For(t.Context(), "a")
	err := cpulimit.Long(ctx, func() error {
		return cpulimit.Short(ctx, func() error { return nil }) // a shared limit would never return
	})
	if err != nil {
		t.Error(err)
	}
}
