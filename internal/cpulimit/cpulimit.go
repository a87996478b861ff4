// Package cpulimit limits how much is computed at once for each client of a process.
package cpulimit

import (
	"context"
	"net"

	"github.com/open-nomad/open-nomad/internal/keyed"
)

// Limit limits how much is computed at once for the clients of a process, so that the requests of one client do not delay
// heartbeats and other clients. Long work, such as plans, has its own limit and does not delay short work, such as reads.
type Limit struct{ short, long *keyed.Slots }

// New makes the limits for n processors: n pieces of short work at once and n/2 pieces of long work.
func New(n int) *Limit {
	return &Limit{short: keyed.NewSlots(n, n), long: keyed.NewSlots(n/2, n/2)}
}

type clientKey struct{}

type client struct {
	*Limit
	address string
}

// For returns the context of a request that was made from a network address. A nil c limits nothing.
func (c *Limit) For(ctx context.Context, address string) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, client{c, host(address)})
}

// ClientOf returns the client address that [Limit.For] recorded in ctx, or an empty string.
func ClientOf(ctx context.Context) string {
	c, _ := ctx.Value(clientKey{}).(client)
	return c.address
}

// Short runs work that computes for milliseconds and waits for nothing. It first waits for a slot of the client that
// [Limit.For] recorded in ctx, if any. When ctx ends first it returns its error and does not run work.
func Short(ctx context.Context, work func() error) error {
	if c, ok := ctx.Value(clientKey{}).(client); ok {
		return c.run(ctx, c.short, work)
	}
	return work()
}

// Long is [Short] for work that may take a second. It may call Short, but not the other way round.
func Long(ctx context.Context, work func() error) error {
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
