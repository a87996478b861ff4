package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// keystore holds the wrapping keys of root keys: one file per key, or memory without a directory.
type keystore struct {
	dir string
	// readOnly writes no files: an external service has the wrapping keys.
	readOnly bool
	mu       sync.Mutex
	known    map[string][]byte
}

// stored is a file of the keystore.
type stored struct {
	KeyID  string
	Unlock []byte
}

func newKeystore(dir string, readOnly bool) *keystore {
	return &keystore{dir: dir, readOnly: readOnly, known: map[string][]byte{}}
}

func (k *keystore) path(id string) string { return filepath.Join(k.dir, id+".json") }

// name is the path below the directory of the server: callers without rights see it.
func (k *keystore) name(id string) string { return filepath.Join(filepath.Base(k.dir), id+".json") }

// get returns a wrapping key. The error is [fault.NotFound] when the file is missing or damaged.
func (k *keystore) get(id string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wrapping := k.known[id]; wrapping != nil {
		return wrapping, nil
	}
	if k.dir == "" || uuid.Validate(id) != nil {
		return nil, fault.New(fault.NotFound, "it is not in the memory of this server")
	}
	body, err := os.ReadFile(k.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the key file %s is missing", k.name(id))
	}
	if err != nil {
		return nil, fmt.Errorf("keystore: %w", err)
	}
	var s stored
	if json.Unmarshal(body, &s) != nil || s.KeyID != id || len(s.Unlock) != wrappingBytes {
		return nil, fault.New(fault.NotFound, "the key file %s is damaged", k.name(id))
	}
	return s.Unlock, nil
}

// put keeps a wrapping key that decrypts its root key. When it returns, a loss of power does not take it.
func (k *keystore) put(id string, wrapping []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir != "" && !k.readOnly {
		body, err := json.Marshal(stored{id, wrapping})
		if err != nil {
			return fmt.Errorf("keystore: %w", err)
		}
		if err := k.write(k.path(id), body); err != nil {
			return fmt.Errorf("keystore: %w", err)
		}
	}
	k.known[id] = wrapping
	return nil
}

// drop deletes a wrapping key.
func (k *keystore) drop(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, id)
	if k.dir == "" {
		return nil
	}
	if err := os.Remove(k.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keystore: %w", err)
	}
	return nil
}

func (k *keystore) write(path string, body []byte) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, body, 0o600)
}
