package client

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
)

// A signal ends an agent that has not started yet, though the disk which it reads hangs.
func TestEndOfAStartThatHangs(t *testing.T) {
	c := &Client{log: hclog.NewNullLogger()}
	ctx, cancel := context.WithCancel(t.Context())
	hung, reads := make(chan struct{}), make(chan struct{})
	defer close(hung)
	go func() { <-reads; cancel() }()
	err := c.first(ctx, "read", "/x", func() error {
		if close(reads); c.Waits() != "read at /x" {
			t.Errorf("it waits for %q", c.Waits())
		}
		<-hung
		return nil
	})
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("ended with %v", err)
	}
	if err := c.first(t.Context(), "read", "/x", func() error { return fault.New(fault.Invalid, "damaged") }); !errors.Is(err, fault.Invalid) {
		t.Errorf("ended with %v", err)
	}
	if c.Waits() != "" {
		t.Errorf("it waits for %q", c.Waits())
	}
}
