package dirs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirquota"
)

// Bounds of a removal. What lies deeper than depthMax is moved up, so that a tree of any depth costs that many
// descriptors; of a directory that many names are held at once.
const (
	depthMax  = 16
	namesMax  = 1024
	removeMax = 10 * time.Minute
)

// Remove removes the allocation's directory as [Remove] does, after [Alloc.UnmountSecrets].
func (a Alloc) Remove() error {
	if err := a.UnmountSecrets(); err != nil {
		return err
	}
	removed, err := dirquota.Lift(a.dir)
	if err != nil {
		return err
	}
	defer removed()
	return Remove(a.dir)
}

// Remove removes a directory. It stops at the first mount point, with an error of class Conflict; nothing
// behind a mount point is touched. A missing directory is no error.
func Remove(dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer unix.Close(parent)
	r := &removal{path: []string{filepath.Dir(dir)}, top: -1, until: time.Now().Add(removeMax)}
	return r.remove(parent, filepath.Base(dir))
}

// removal is the removal of one directory.
type removal struct {
	// path are the names on the way to what is being removed, for people.
	path []string
	// top is the directory that is being removed, to which deep ones are moved.
	top   int
	until time.Time
}

// remove removes one entry of an open directory.
func (r *removal) remove(dir int, name string) error {
	r.path = append(r.path, name)
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			if len(r.path) > depthMax {
				err = unix.Renameat(dir, name, r.top, ".deep-"+rand.Text())
			} else if err = r.empty(dir, name); err == nil {
				err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
			}
		}
	}
	if err = r.say(err); err == nil {
		r.path = r.path[:len(r.path)-1]
	}
	return err
}

// empty removes what is in a directory, also what comes into it meanwhile.
func (r *removal) empty(dir int, name string) error {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath,
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if r.top < 0 {
		r.top = fd
	}
	for found := true; found; {
		found = false
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		for {
			names, err := f.Readdirnames(namesMax)
			for _, n := range names {
				found = true
				if err := r.remove(fd, n); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if time.Now().After(r.until) {
				return fault.New(fault.Unavailable, "there is more after %s", removeMax)
			}
		}
	}
	return nil
}

// reportedError is an error that names its place already.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// say names the place of an error.
func (r *removal) say(err error) error {
	var done reportedError
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case errors.As(err, &done):
		return err
	}
	path := filepath.Join(r.path...)
	switch {
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV):
		return reportedError{fault.New(fault.Conflict, "%s is a mount point and is not removed", path)}
	default:
		return reportedError{fmt.Errorf("remove %s: %w", path, err)}
	}
}
