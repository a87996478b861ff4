package variables

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Keys are the root keys of the cluster as they encrypt data.
type Keys interface {
	// DataKey is the active one; it fails while too few servers have it.
	DataKey(ctx context.Context) (id string, key []byte, err error)
	// DataKeyOf is the one with the id.
	DataKeyOf(id string) ([]byte, error)
}

// place binds the data of a variable to where it is stored, so that a row which was moved does not decrypt.
func place(namespace, path string) []byte { return []byte(namespace + "\x00" + path) }

// gcm is AES-256-GCM with a random nonce of each entry.
func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return aead, nil
		}
	}
	return nil, fault.New(fault.Internal, "AES-256-GCM: %w", err)
}

// seal encrypts items into the row.
func (s *Service) seal(ctx context.Context, row *api.VariableRow, items map[string]string) error {
	id, key, err := s.Keys.DataKey(ctx)
	if err != nil {
		return err
	}
	aead, err := gcm(key)
	if err != nil {
		return err
	}
	text, err := json.Marshal(items)
	if err != nil {
		return fault.New(fault.Internal, "encode a variable: %w", err)
	}
	row.KeyID, row.Data = id, aead.Seal(nil, nil, text, place(row.Namespace, row.Path)) //nolint:gosec // the cipher makes a random nonce itself
	return nil
}

// open decrypts the items of a row.
func (s *Service) open(row *api.VariableRow) (map[string]string, error) {
	key, err := s.Keys.DataKeyOf(row.KeyID)
	if err != nil {
		return nil, err
	}
	aead, err := gcm(key)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, row.Data, place(row.Namespace, row.Path))
	if err != nil {
		return nil, fault.New(fault.Internal, "variable %q of namespace %q does not decrypt with root key %s", row.Path, row.Namespace, row.KeyID)
	}
	var items map[string]string
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fault.New(fault.Internal, "the items of variable %q of namespace %q are not JSON", row.Path, row.Namespace)
	}
	return items, nil
}
