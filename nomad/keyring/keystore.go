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

	"github.com/open-nomad/open-nomad/internal/durable"
)

// keystore holds what unwraps root keys: one file per key, or memory without a directory.
type keystore struct {
	dir   string
	mu    sync.Mutex
	known map[string][]byte
}

// stored is a file of the keystore.
type stored struct {
	KeyID  string
	Unlock []byte
}

func newKeystore(dir string) *keystore { return &keystore{dir: dir, known: map[string][]byte{}} }

func (k *keystore) path(id string) string { return filepath.Join(k.dir, id+".json") }

// get returns what unwraps a key; nil when it is not here. A file that cannot be read as one counts as missing: it is
// asked for again and replaced.
func (k *keystore) get(id string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if unlock := k.known[id]; unlock != nil || k.dir == "" || uuid.Validate(id) != nil {
		return unlock, nil
	}
	body, err := os.ReadFile(k.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keystore: %w", err)
	}
	var s stored
	if json.Unmarshal(body, &s) != nil || s.KeyID != id || len(s.Unlock) != unlockBytes {
		return nil, nil
	}
	k.known[id] = s.Unlock
	return s.Unlock, nil
}

// put keeps what unwraps a key. When it returns, a loss of power does not take it.
func (k *keystore) put(id string, unlock []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir != "" {
		body, err := json.Marshal(stored{id, unlock})
		if err != nil {
			return fmt.Errorf("keystore: %w", err)
		}
		if err := k.write(k.path(id), body); err != nil {
			return fmt.Errorf("keystore: %w", err)
		}
	}
	k.known[id] = unlock
	return nil
}

// drop forgets what unwraps a key.
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
