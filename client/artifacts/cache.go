package artifacts

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// cacheMax is the size of the cache of a node; a file may have a share of it.
	cacheMax   = 2 << 30
	cacheShare = 4
	kept       = "kept"
)

// cache keeps downloaded files that have a checksum; the program compares it at each use. Errors of the cache are ignored: the
// file is downloaded again.
type cache struct {
	dir string
	max int64
	mu  sync.Mutex
}

// cacheKey is the name of the artifact's file in the cache; it is empty if the file is not cached. It contains all that the
// download depends on, so that a job without the credentials of another one does not get its file.
func cacheKey(namespace string, a Artifact) string {
	source := a.source()
	sum := a.Options["checksum"]
	if sum == "" {
		_, query, _ := strings.Cut(source, "?")
		for part := range strings.SplitSeq(query, "&") {
			if value, ok := strings.CutPrefix(part, "checksum="); ok {
				sum = value
			}
		}
	}
	if !strings.HasPrefix(sum, "sha256") && !strings.HasPrefix(sum, "sha512") {
		return ""
	}
	all, err := json.Marshal([]any{namespace, source, a.Headers, a.Insecure})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(all))
}

// open returns the cached file, or nil, and marks it as used.
func (c *cache) open(key string) *os.File {
	if key == "" {
		return nil
	}
	path := filepath.Join(c.dir, key)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now)
	return f
}

func (c *cache) remove(key string) { _ = os.Remove(filepath.Join(c.dir, key)) }

// add copies the file that the program has kept in the directory of a download, and removes those that were not used for the
// longest time.
func (c *cache) add(key, dir string) error {
	from, err := openResult(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	st, err := from.Lstat(kept)
	if err != nil || !st.Mode().IsRegular() || st.Size() > c.max/cacheShare {
		return err
	}
	src, err := from.Open(kept)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	made := filepath.Join(c.dir, ".made-"+rand.Text())
	dst, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err == nil {
		err = os.Rename(made, filepath.Join(c.dir, key))
	}
	if err != nil {
		_ = os.Remove(made)
		return err
	}
	return c.shrink()
}

// shrink removes files until the rest fits. A file that was left half-written is removed as one that is not used.
func (c *cache) shrink() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var size int64
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			files = append(files, st)
			size += st.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, st := range files {
		if size <= c.max {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, st.Name())); err != nil {
			return err
		}
		size -= st.Size()
	}
	return nil
}
