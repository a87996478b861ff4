package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Staged is what a node saw of the disk that all nodes share before it mounted that. Busy means that it was mounted by
// another one. Before and After are how many bytes the device had been written in its life, a while apart.
type Staged struct {
	Node          string
	At            time.Time
	Busy          bool
	Before, After int64
}

func stagedFile(dir string) string { return filepath.Join(dir, "staged.log") }

// NoteStaged adds what a node saw.
func NoteStaged(dir string, s Staged) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(stagedFile(dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// AllStaged are what the nodes saw, in order.
func AllStaged(dir string) (all []Staged, err error) {
	raw, err := os.ReadFile(stagedFile(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var s Staged
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
