package tasks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api/fault"
)

// payload writes the payload of a dispatched job.
type payload struct{ *task }

func (payload) name() string { return "payload" }

func (s payload) up(_ context.Context, a *attempt) error {
	p, job := a.spec.DispatchPayload, a.alloc.Job
	if p == nil || p.File == "" || len(job.Payload) == 0 {
		return nil
	}
	text, err := unpack(job.Payload)
	if err != nil {
		return fault.New(fault.Invalid, "task %s: payload of job %q: %w", s.task.name, job.ID, err)
	}
	return writeFiles(s.g.conf.Dirs.Task(s.task.name).Dir(), map[string]textFile{path.Join("local", a.env.Replace(p.File)): {text: text, mode: 0o644}})
}

// payloadMax bounds what a payload may unpack to; servers accept 16 KiB.
const payloadMax = 1 << 20

func unpack(packed []byte) ([]byte, error) {
	if n, err := snappy.DecodedLen(packed); err != nil || n > payloadMax {
		return nil, fault.New(fault.Invalid, "it is not compressed, or larger than %d bytes", payloadMax)
	}
	return snappy.Decode(nil, packed)
}

// textFile is a file to write.
type textFile struct {
	text []byte
	mode fs.FileMode
	// uid and gid are the owner, unless they are 0.
	uid, gid int
}

// writeFiles writes files below dir; a name that leads out of it is refused.
func writeFiles(dir string, files map[string]textFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open directory of task: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		rel := strings.TrimPrefix(strings.TrimPrefix(path.Clean(name), dir), "/")
		if err := root.MkdirAll(path.Dir(rel), 0o777); err != nil {
			errs = append(errs, fmt.Errorf("make directory of %s: %w", name, err))
			continue
		}
		if err := replace(root, rel, f); err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// replace puts a new file in the place of whatever the task has there: opening that might never return.
func replace(root *os.Root, name string, f textFile) error {
	made := path.Join(path.Dir(name), ".made-"+rand.Text())
	file, err := root.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	if f.uid > 0 || f.gid > 0 {
		err = errors.Join(err, file.Chown(f.uid, f.gid))
	}
	if err = errors.Join(err, file.Chmod(f.mode), file.Close()); err == nil {
		err = root.Rename(made, name)
	}
	if err != nil {
		_ = root.Remove(made)
	}
	return err
}
