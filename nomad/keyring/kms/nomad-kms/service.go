package main

import (
	"context"
	"fmt"
	"maps"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/awskms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/azurekeyvault/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/gcpckms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/transit/v2"
	"google.golang.org/protobuf/proto"
)

var makers = map[string]func() wrapping.Wrapper{
	"awskms":        func() wrapping.Wrapper { return awskms.NewWrapper() },
	"azurekeyvault": func() wrapping.Wrapper { return azurekeyvault.NewWrapper() },
	"gcpckms":       func() wrapping.Wrapper { return gcpckms.NewWrapper() },
	"transit":       func() wrapping.Wrapper { return transit.NewWrapper() },
}

// service is the external service. It is connected to at the first request, and again after a failure.
type service struct {
	setup
	// turn is taken by the one that connects; wrapper is set once that succeeded.
	turn    chan struct{}
	wrapper wrapping.Wrapper
}

func newService(s setup) *service { return &service{setup: s, turn: make(chan struct{}, 1)} }

func (s *service) serve(r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
	defer cancel()
	if r.Decrypt != nil {
		return s.decrypt(ctx, r.Decrypt)
	}
	w, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	blob, err := w.Encrypt(ctx, r.Encrypt)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(blob)
}

func (s *service) decrypt(ctx context.Context, encrypted []byte) ([]byte, error) {
	var blob wrapping.BlobInfo
	if err := proto.Unmarshal(encrypted, &blob); err != nil {
		return nil, fmt.Errorf("the stored key is damaged: %w", err)
	}
	w, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return w.Decrypt(ctx, &blob)
}

// connected returns the wrapper. The libraries take no context to connect: an attempt that lasts longer than ctx keeps running.
func (s *service) connected(ctx context.Context) (wrapping.Wrapper, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s does not answer: %w", s.Provider, ctx.Err())
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
		w := makers[s.Provider]()
		_, err := w.SetConfig(context.WithoutCancel(ctx), wrapping.WithConfigMap(maps.Clone(s.Config)))
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
		return nil, fmt.Errorf("%s does not answer: %w", s.Provider, ctx.Err())
	}
}
