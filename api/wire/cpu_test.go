package wire_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api/wire"
)

func TestWorkThatPanicsReleasesItsSlot(t *testing.T) {
	ctx := wire.NewCPU(1).For(t.Context(), "a")
	for _, run := range []func(context.Context, func() error) error{wire.RunShort, wire.RunLong} {
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
	ctx := wire.NewCPU(1).For(t.Context(), "a")
	err := wire.RunLong(ctx, func() error {
		return wire.RunShort(ctx, func() error { return nil }) // a shared limit would never return
	})
	if err != nil {
		t.Error(err)
	}
}
