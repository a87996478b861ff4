package kms

import (
	"context"
	"io/fs"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of a call.
const (
	// callMax is the time for a call whose context has no deadline.
	callMax = time.Minute
	// grace is the time for the reply of the program after the deadline of a call.
	grace = 2 * time.Second
)

// Providers are the names of the external services.
func Providers() []string { return []string{"awskms", "azurekeyvault", "gcpckms", "transit"} }

// Service is one external service. Its program is started by the first call, and again by the first call after it ended. It
// ends with the process of the agent.
type Service struct {
	provider string
	config   map[string]string
	dir      string
	// turn is taken by the call that uses the program.
	turn  chan struct{}
	child *child
	// carried has the program.
	carried fs.FS
}

// New makes the service of a provider. The keys of config are those of the provider. Its program is installed in dir.
func New(provider string, config map[string]string, dir string) (*Service, error) {
	if !slices.Contains(Providers(), provider) {
		return nil, fault.New(fault.Invalid, "keyring %q is not known: want one of aead, %v", provider, Providers())
	}
	return &Service{provider: provider, config: config, dir: dir, carried: carried, turn: make(chan struct{}, 1)}, nil
}

// Encrypt encrypts a wrapping key.
func (s *Service) Encrypt(ctx context.Context, plain []byte) ([]byte, error) {
	return s.call(ctx, request{Encrypt: plain})
}

// Decrypt decrypts a wrapping key.
func (s *Service) Decrypt(ctx context.Context, encrypted []byte) ([]byte, error) {
	return s.call(ctx, request{Decrypt: encrypted})
}

// call waits for its turn and for the reply until ctx ends. The program continues a call that nothing waits for until its
// deadline, because its connection is for the next one.
func (s *Service) call(ctx context.Context, r request) ([]byte, error) {
	r.Timeout = callMax
	if at, ok := ctx.Deadline(); ok {
		r.Timeout = max(time.Until(at), time.Millisecond)
	}
	late := func() error { return fault.New(fault.Unavailable, "%s does not answer: %w", s.provider, ctx.Err()) }
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late()
	}
	type result struct {
		bytes []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		b, err := s.exchange(r)
		<-s.turn
		done <- result{b, err}
	}()
	select {
	case r := <-done:
		return r.bytes, r.err
	case <-ctx.Done():
		return nil, late()
	}
}
