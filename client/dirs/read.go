package dirs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of what one call returns.
const (
	entriesMax = 10000
	pieceBytes = 64 << 10
	pieceMax   = api.PieceMax
	sniffBytes = 512
)

// List describes the entries of a folder, sorted by name; at most 10000 of them.
func (a Alloc) List(name string) ([]*api.AllocFileInfo, error) {
	root, name, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, info, err := open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !info.IsDir() {
		return nil, fault.New(fault.Invalid, "%s is not a directory", name)
	}
	entries, err := f.ReadDir(entriesMax) // of more it is any that are shown
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, said(name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	out := make([]*api.AllocFileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			out = append(out, describe(info))
		}
	}
	return out, nil
}

// Stat describes one file; for a regular file it includes the content type.
func (a Alloc) Stat(name string) (*api.AllocFileInfo, error) {
	root, name, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, said(name, err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return describe(info), nil
	}
	f, info, err := open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := describe(info)
	out.Name = path.Base(name)
	if info.Mode().IsRegular() {
		out.ContentType = contentType(f, name)
	}
	return out, nil
}

func contentType(f *os.File, name string) string {
	if t := mime.TypeByExtension(filepath.Ext(name)); t != "" {
		return t
	}
	head := make([]byte, sniffBytes)
	n, _ := io.ReadFull(f, head)
	return http.DetectContentType(head[:n])
}

// Read returns a piece of a regular file, at most limit bytes from offset on, and whether the file ends
// with it. A limit of 0 means 64 KiB; more than 4 MiB are never returned at once.
func (a Alloc) Read(name string, offset, limit int64) (piece []byte, eof bool, err error) {
	if offset < 0 || limit < 0 {
		return nil, false, fault.New(fault.Invalid, "read of %s from %d, %d bytes: offset and limit must not be negative", name, offset, limit)
	}
	if limit == 0 {
		limit = pieceBytes
	}
	root, name, err := a.open(name)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	f, info, err := open(root, name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return nil, false, fault.New(fault.Invalid, "%s is not a regular file", name)
	}
	piece = make([]byte, max(0, min(limit, pieceMax, info.Size()-offset)))
	n, err := f.ReadAt(piece, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	return piece[:n], offset+int64(n) >= info.Size(), nil
}

// open opens a file or directory. It does not wait for the pipe that a task puts in its place meanwhile.
func open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		if err != nil {
			return nil, nil, said(name, err)
		}
		return nil, nil, fault.New(fault.Invalid, "%s is neither a file nor a directory", name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, said(name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = keepsSecrets(root, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// open opens the allocation's directory as a root that nothing leaves and cleans the name.
func (a Alloc) open(name string) (*os.Root, string, error) {
	if strings.ContainsRune(name, 0) {
		return nil, "", fault.New(fault.Invalid, "path %q holds a zero byte", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return nil, "", fault.New(fault.Invalid, "path %q leaves the directory of the allocation", name)
		}
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		name = "."
	}
	if parts := strings.Split(name, "/"); len(parts) >= 2 && parts[0] != sharedName && parts[1] == secretsName {
		return nil, "", fault.New(fault.Denied, "reading the secrets of task %s is prohibited", parts[0])
	}
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return nil, "", said(a.dir, err)
	}
	return root, name, nil
}

// keepsSecrets refuses a file that was reached in a secrets directory, through a link that a task made.
func keepsSecrets(root *os.Root, f *os.File) error {
	base, err := root.Open(".")
	if err != nil {
		return said(root.Name(), err)
	}
	defer base.Close()
	rel, err := filepath.Rel(placeOf(base), placeOf(f))
	if err != nil {
		return nil
	}
	parts := strings.Split(rel, "/")
	if parts[0] == ".." {
		return fault.New(fault.Denied, "reading what is on a mount that was detached is prohibited")
	}
	if len(parts) >= 2 && parts[0] != sharedName && parts[1] == secretsName {
		return fault.New(fault.Denied, "reading the secrets of task %s is prohibited", parts[0])
	}
	return nil
}

// placeOf is where an open file lies, by the kernel's word.
func placeOf(f *os.File) string {
	name, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return name
}

func said(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "%s: no such file or directory", name)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return fault.New(fault.NotFound, "%s: %w", name, err)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return fault.New(fault.Invalid, "%s: %w", name, err)
	case errors.Is(err, unix.EAGAIN): // a task has a lease on it
		return fault.New(fault.Conflict, "%s: %w", name, err)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Denied, "%s: %w", name, err)
	case strings.Contains(err.Error(), "escapes"):
		return fault.New(fault.Invalid, "path %q leaves the directory of the allocation", name)
	}
	return fmt.Errorf("read %s: %w", name, err)
}

func describe(info fs.FileInfo) *api.AllocFileInfo {
	return &api.AllocFileInfo{
		Name: info.Name(), IsDir: info.IsDir(), Size: info.Size(), FileMode: info.Mode().String(), ModTime: info.ModTime(),
	}
}
