package keyring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// External is a service outside of the cluster that encrypts wrapping keys.
type External interface {
	Encrypt(ctx context.Context, plain []byte) ([]byte, error)
	Decrypt(ctx context.Context, encrypted []byte) ([]byte, error)
}

// Provider is an external service of the configuration.
type Provider struct {
	// Name is the label of the keyring block, and its name after a dot if it has one.
	Name string
	// Active encrypts the wrapping keys of new root keys; otherwise it only decrypts former ones.
	Active bool
	External
}

// externalTimeout bounds a call: the libraries try several times before they return the reason of a failure.
const externalTimeout = 15 * time.Second

// encrypt adds the wrapping key to the row as each active provider encrypts it.
func (s *Service) encrypt(ctx context.Context, k *api.RootKey, wrapping []byte) error {
	for _, p := range s.Providers {
		if !p.Active {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, externalTimeout)
		encrypted, err := p.Encrypt(ctx, wrapping)
		cancel()
		if err != nil {
			return fault.New(fault.Unavailable, "keyring %q does not encrypt the new root key: %w; restore access to its service, or set active = false on all servers", p.Name, err)
		}
		k.External = append(k.External, &api.RootKeyExternal{Provider: p.Name, Wrapped: encrypted})
	}
	return nil
}

// decrypt keeps the wrapping key that an external service decrypts.
func (s *Service) decrypt(ctx context.Context, k *api.RootKey) error {
	var all []error
	for _, e := range k.External {
		err := errors.New("it is not in the configuration of this server")
		for _, p := range s.Providers {
			if p.Name != e.Provider {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, externalTimeout)
			var wrapping []byte
			if wrapping, err = p.Decrypt(ctx, e.Wrapped); err == nil {
				err = s.keep(k, wrapping)
			}
			cancel()
			if err == nil {
				return nil
			}
		}
		all = append(all, fmt.Errorf("keyring %q: %w", e.Provider, err))
	}
	return errors.Join(all...)
}

// keep stores a wrapping key that decrypts the root key.
func (s *Service) keep(k *api.RootKey, wrapping []byte) error {
	if _, err := open(k, wrapping); err != nil {
		return err
	}
	return s.store.put(k.KeyID, wrapping)
}
