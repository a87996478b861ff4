package templates

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
)

// fileMax bounds the files that are read for templates.
const fileMax = 4 << 20

// Files are the files that the templates of a task may read and write.
type Files struct {
	// Task is the directory of the task, Shared the directory that the tasks of its allocation share.
	Task, Shared string
}

// File is a file that a template reads.
type File struct {
	Content string
	// Missing is why there is no content yet; Refused is why there will be none.
	Missing, Refused string
}

// Find returns the directory that a path lies in, and the path below it. Paths are those that the task sees or, without
// isolation, those of the host; relative ones begin at the directory of the task.
func (f Files) Find(name string) (dir, rel string, err error) {
	p := path.Clean(name)
	if !path.IsAbs(p) {
		p = path.Join(f.Task, p)
	} else if below, ok := under(p, "/alloc"); ok && !within(p, f.Task) && !within(p, f.Shared) {
		return f.Shared, below, nil
	} else if !within(p, f.Task) && !within(p, f.Shared) {
		p = path.Join(f.Task, p)
	}
	for _, dir := range []string{f.Task, f.Shared} {
		if below, ok := under(p, dir); ok {
			return dir, below, nil
		}
	}
	return "", "", fault.New(fault.Invalid, "%s is outside of the directories of the task and its allocation", name)
}

func within(p, dir string) bool {
	_, ok := under(p, dir)
	return ok
}

// under returns the part of a clean path below dir.
func under(p, dir string) (string, bool) {
	if p == dir {
		return ".", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Read reads a regular file.
func (f Files) Read(name string) (string, error) {
	dir, rel, err := f.Find(name)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open the directory of the task: %w", err)
	}
	defer root.Close()
	file, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer does not block
	if err != nil {
		return "", err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", fault.New(fault.Invalid, "%s is not a regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	if err == nil && len(b) > fileMax {
		err = fault.New(fault.Invalid, "%s is larger than %d MiB", name, fileMax>>20)
	}
	return string(b), err
}

// ReadFor reads a file for the function file: one that does not exist is waited for.
func (f Files) ReadFor(name string) File {
	text, err := f.Read(name)
	switch {
	case err == nil:
		return File{Content: text}
	case errors.Is(err, fs.ErrNotExist):
		return File{Missing: "there is no such file in the directory of the task"}
	}
	return File{Refused: err.Error()}
}
