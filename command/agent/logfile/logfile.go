// Package logfile writes the log of the agent to a file that is renamed when it is large or old.
//
// Invariants:
//   - A line is not split between files.
//   - When the file cannot be renamed or created, writing continues in the old one: rotation loses no line.
//
// Lumberjack would not do: its limit is in megabytes, it cannot keep zero archives or rotate by age, and it drops the line
// when a rotation fails.
package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Default is the name of the file when Path is a directory.
const Default = "nomad.log"

// Config configures a log file.
type Config struct {
	// Path is the file, or its directory with a slash at the end.
	Path string
	// BytesMax limits the size; 0 means no limit.
	BytesMax int64
	// AgeMax limits the time that a file is used; 0 means no limit.
	AgeMax time.Duration
	// ArchivesMax is the number of renamed files to keep: 0 keeps all, a negative number none.
	ArchivesMax int
}

// File is the log. Its methods may be called concurrently.
type File struct {
	conf Config

	mu     sync.Mutex
	file   *os.File
	bytes  int64
	opened time.Time
}

// Open opens the file for appending, or creates it, readable by its owner only.
func Open(c Config) (*File, error) {
	if strings.HasSuffix(c.Path, "/") {
		c.Path += Default
	}
	f := &File{conf: c}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.conf.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("stat log file: %w", err)
	}
	f.file, f.bytes, f.opened = file, info.Size(), time.Now()
	return nil
}

// Write appends a line, after a rotation if that is due.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.due(len(line)) {
		f.rotate()
	}
	n, err := f.file.Write(line)
	f.bytes += int64(n)
	return n, err
}

// due reports whether the file must be rotated before a line of that length is written. An empty file is not rotated.
func (f *File) due(line int) bool {
	full := f.conf.BytesMax > 0 && f.bytes+int64(line) > f.conf.BytesMax
	old := f.conf.AgeMax > 0 && time.Since(f.opened) >= f.conf.AgeMax
	return f.bytes > 0 && (full || old)
}

// rotate renames the file and creates a new one. After a failure it is tried again when the next rotation is due.
func (f *File) rotate() {
	was := f.file
	err := os.Rename(f.conf.Path, f.archive(time.Now()))
	if (err == nil || errors.Is(err, fs.ErrNotExist)) && f.open() == nil {
		_ = was.Close()
		f.prune()
		return
	}
	f.bytes, f.opened = 0, time.Now()
}

// archive returns the name of a file that is renamed at that time: nomad-<nanoseconds>.log.
func (f *File) archive(at time.Time) string {
	head, tail := f.parts()
	return fmt.Sprintf("%s%019d%s", head, at.UnixNano(), tail)
}

// parts returns the text before and after the time in the names of archives.
func (f *File) parts() (head, tail string) {
	tail = filepath.Ext(f.conf.Path)
	return strings.TrimSuffix(f.conf.Path, tail) + "-", tail
}

// prune removes the oldest archives and no other file.
func (f *File) prune() {
	if f.conf.ArchivesMax == 0 {
		return
	}
	head, tail := f.parts()
	entries, err := os.ReadDir(filepath.Dir(f.conf.Path))
	if err != nil {
		return
	}
	var all []string
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(head))
		if at, ours2 := strings.CutSuffix(rest, tail); ours && ours2 && isTime(at) {
			all = append(all, e.Name())
		}
	}
	slices.Sort(all)
	for _, name := range all[:max(0, len(all)-max(0, f.conf.ArchivesMax))] {
		_ = os.Remove(filepath.Join(filepath.Dir(f.conf.Path), name))
	}
}

// isTime reports whether the text is the time of an archive.
func isTime(text string) bool {
	return len(text) == 19 && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
