package wire

import (
	"context"
	"net"

	"github.com/open-nomad/open-nomad/internal/keyed"
)

// CPU limits how much is computed at once for the clients of a process, so that the requests of one client do not delay
// heartbeats and other clients. Long work, such as plans, has its own limit and does not delay short work, such as reads.
type CPU struct{ short, long *keyed.Slots }

// NewCPU makes the limits for n processors: n pieces of short work at once and n/2 pieces of long work.
func NewCPU(n int) *CPU {
	return &CPU{short: keyed.NewSlots(n, n), long: keyed.NewSlots(n/2, n/2)}
}

type clientKey struct{}

type client struct {
	*CPU
	address string
}

// For returns the context of a request that was made from a network address. A nil c limits nothing.
func (c *CPU) For(ctx context.Context, address string) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, client{c, host(address)})
}

// ClientOf returns the client address that [CPU.For] recorded in ctx, or an empty string.
func ClientOf(ctx context.Context) string {
	c, _ := ctx.Value(clientKey{}).(client)
	return c.address
}

// RunShort runs work that computes for milliseconds and waits for nothing. It first waits for a slot of the client that
// [CPU.For] recorded in ctx, if any. When ctx ends first it returns its error and does not run work.
func RunShort(ctx context.Context, work func() error) error {
	if c, ok := ctx.Value(clientKey{}).(client); ok {
		return c.run(ctx, c.short, work)
	}
	return work()
}

// RunLong is [RunShort] for work that may take a second. It may call RunShort, but not the other way round.
func RunLong(ctx context.Context, work func() error) error {
	if c, ok := ctx.Value(clientKey{}).(client); ok {
		return c.run(ctx, c.long, work)
	}
	return work()
}

func (c client) run(ctx context.Context, slots *keyed.Slots, work func() error) error {
	release, err := slots.Acquire(ctx, c.address)
	if err != nil {
		return err
	}
	defer release()
	return work()
}

// host returns a network address without its port.
func host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
