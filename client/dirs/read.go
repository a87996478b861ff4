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
	"strings"

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
	info, err := root.Stat(name)
	if err != nil {
		return nil, said(name, err)
	}
	if !info.IsDir() {
		return nil, fault.New(fault.Invalid, "%s is not a directory", name)
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return nil, said(name, err)
	}
	if len(entries) > entriesMax {
		entries = entries[:entriesMax]
	}
	out := make([]*api.AllocFileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			out = append(out, describe(info))
		}
	}
	return out, nil
}

// Stat describes one file; of a regular one it also tells the type of the content.
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
	out := describe(info)
	if info.Mode().IsRegular() {
		out.ContentType = contentType(root, name)
	}
	return out, nil
}

func contentType(root *os.Root, name string) string {
	if t := mime.TypeByExtension(filepath.Ext(name)); t != "" {
		return t
	}
	f, err := root.Open(name)
	if err != nil {
		return "application/octet-stream"
	}
	defer f.Close()
	head := make([]byte, sniffBytes)
	n, _ := io.ReadFull(f, head)
	return http.DetectContentType(head[:n])
}

// Read returns a piece of a regular file, at most limit bytes from offset on, and whether the file ends
// with it. A limit of 0 means 64 KiB; more than 4 MiB are never returned at once.
func (a Alloc) Read(name string, offset, limit int64) (piece []byte, eof bool, err error) {
	if offset < 0 || limit < 0 {
		return nil, false, fault.New(fault.Invalid, "read of %s from %d, %d bytes: want numbers from 0", name, offset, limit)
	}
	if limit == 0 {
		limit = pieceBytes
	}
	root, name, err := a.open(name)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, false, said(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, false, fault.New(fault.Invalid, "%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, false, said(name, err)
	}
	defer f.Close()
	piece = make([]byte, max(0, min(limit, pieceMax, info.Size()-offset)))
	n, err := f.ReadAt(piece, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	return piece[:n], offset+int64(n) >= info.Size(), nil
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
	if err := keepsSecrets(root, name); err != nil {
		_ = root.Close()
		return nil, "", err
	}
	return root, name, nil
}

// keepsSecrets refuses a name that reaches a secrets directory through a link that a task made.
func keepsSecrets(root *os.Root, name string) error {
	real, err := filepath.EvalSymlinks(filepath.Join(root.Name(), name))
	if err != nil {
		return nil // the file operation that follows tells why
	}
	base, err := filepath.EvalSymlinks(root.Name())
	if err != nil {
		return said(root.Name(), err)
	}
	rel, err := filepath.Rel(base, real)
	if err != nil {
		return nil
	}
	if parts := strings.Split(rel, "/"); len(parts) >= 2 && parts[0] != sharedName && parts[1] == secretsName {
		return fault.New(fault.Denied, "reading the secrets of task %s is prohibited", parts[0])
	}
	return nil
}

func said(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "%s: no such file or directory", name)
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
