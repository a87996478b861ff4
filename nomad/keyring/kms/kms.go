package kms

import (
	"context"
	"maps"
	"slices"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/awskms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/azurekeyvault/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/gcpckms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/transit/v2"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/api/fault"
)

var makers = map[string]func() wrapping.Wrapper{
	"awskms":        func() wrapping.Wrapper { return awskms.NewWrapper() },
	"azurekeyvault": func() wrapping.Wrapper { return azurekeyvault.NewWrapper() },
	"gcpckms":       func() wrapping.Wrapper { return gcpckms.NewWrapper() },
	"transit":       func() wrapping.Wrapper { return transit.NewWrapper() },
}

// Providers are the names of the external services.
func Providers() []string { return slices.Sorted(maps.Keys(makers)) }

// Service is one external service. It is connected to when it is first used, and again after a failure.
type Service struct {
	provider string
	config   map[string]string
	// turn is taken by the one that connects; wrapper is set once that succeeded.
	turn    chan struct{}
	wrapper wrapping.Wrapper
}

// New makes the service of a provider. The keys of config are those of the provider.
func New(provider string, config map[string]string) (*Service, error) {
	if makers[provider] == nil {
		return nil, fault.New(fault.Invalid, "keyring %q is not known: want one of aead, %v", provider, Providers())
	}
	return &Service{provider: provider, config: config, turn: make(chan struct{}, 1)}, nil
}

// connected returns the wrapper. The libraries take no context to connect: an attempt that lasts longer than ctx keeps running.
func (s *Service) connected(ctx context.Context) (wrapping.Wrapper, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", s.provider, ctx.Err())
	}
	if w := s.wrapper; w != nil {
		<-s.turn
		return w, nil
	}
	type result struct {
		wrapper wrapping.Wrapper
		err     error
	}
	done := make(chan result, 1)
	go func() {
		w := makers[s.provider]()
		_, err := w.SetConfig(context.WithoutCancel(ctx), wrapping.WithConfigMap(maps.Clone(s.config)))
		if err == nil {
			s.wrapper = w
		}
		<-s.turn
		done <- result{w, err}
	}()
	select {
	case r := <-done:
		return r.wrapper, r.err
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", s.provider, ctx.Err())
	}
}

// Encrypt encrypts a wrapping key.
func (s *Service) Encrypt(ctx context.Context, plain []byte) ([]byte, error) {
	w, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	blob, err := w.Encrypt(ctx, plain)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(blob)
}

// Decrypt decrypts a wrapping key.
func (s *Service) Decrypt(ctx context.Context, encrypted []byte) ([]byte, error) {
	var blob wrapping.BlobInfo
	if err := proto.Unmarshal(encrypted, &blob); err != nil {
		return nil, fault.New(fault.Invalid, "the stored key is damaged: %w", err)
	}
	w, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return w.Decrypt(ctx, &blob)
}
