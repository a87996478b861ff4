package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// identity reads the node's id and secret, or makes them; fresh reports that the id is new. They are files of their
// own, so that the node stays the same when its database is lost.
func identity(dir string) (id, secret string, fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", false, fmt.Errorf("make state directory: %w", err)
	}
	if id, fresh, err = keep(filepath.Join(dir, "client-id")); err != nil {
		return "", "", false, err
	}
	secret, _, err = keep(filepath.Join(dir, "secret-id"))
	return id, secret, fresh, err
}

// keep reads the uuid in the file, or writes a new one.
func keep(path string) (id string, fresh bool, err error) {
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		text := strings.TrimSpace(string(b))
		if _, err := uuid.Parse(text); err != nil {
			return "", false, fault.New(fault.Invalid, "%s does not hold an id: remove it to make this a new node", path)
		}
		return text, false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("read identity of the node: %w", err)
	}
	id = uuid.NewString()
	if err := durable.WriteFile(path, []byte(id), 0o600); err != nil {
		return "", false, fmt.Errorf("write identity of the node: %w", err)
	}
	return id, true, nil
}
