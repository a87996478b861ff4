// Package logfile writes a log, that of the agent or that of audits, to a file that is renamed when it is large or old.
//
// Invariants:
//   - A line is not split between files, and a file contains whole lines only: a part of one is removed.
//   - When the file cannot be renamed or created, writing continues in the old one: rotation loses no line.
//
// Lumberjack would not do: its limit is in megabytes, it cannot keep zero archives or rotate by age, and it drops the line
// when a rotation fails.
package logfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	// Mode is that of the file, also of one that exists; 0 is 0600 for a file that is created.
	Mode fs.FileMode
}

// File is the log. Its methods may be called concurrently.
type File struct {
	conf Config

	mu      sync.Mutex
	file    *os.File // nil until it is opened
	regular bool     // not a device or a pipe
	bytes   int64
	opened  time.Time
	lines   uint64 // written

	syncing sync.Mutex
	synced  uint64 // how many lines are on the disk
}

// Open opens the file for appending, or creates it.
func Open(c Config) (*File, error) {
	f := New(c)
	if err := f.Reopen(); err != nil {
		return nil, err
	}
	return f, nil
}

// New makes a log whose file is opened by the first write.
func New(c Config) *File {
	c.Path = Path(c.Path)
	return &File{conf: c}
}

// Path returns the path of the file that a configuration names: a slash at the end names a directory.
func Path(configured string) string {
	if strings.HasSuffix(configured, "/") {
		return configured + Default
	}
	return configured
}

// Reopen opens the file by its name again, after another program renamed it. After an error the old one stays.
func (f *File) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.file
	if was != nil {
		if err := syncFile(was); err != nil {
			return fmt.Errorf("sync log file: %w", err)
		}
	}
	if err := f.open(); err != nil {
		return err
	}
	if was != nil {
		_ = was.Close()
	}
	return nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.conf.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, cmp.Or(f.conf.Mode, 0o600))
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && f.conf.Mode != 0 && info.Mode().IsRegular() && info.Mode().Perm() != f.conf.Mode {
		err = file.Chmod(f.conf.Mode)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("mode of log file: %w", err)
	}
	f.file, f.regular, f.bytes, f.opened = file, info.Mode().IsRegular(), info.Size(), time.Now()
	return nil
}

// Write appends a line, after a rotation if that is due.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.due(len(line)) {
		f.rotate()
	}
	n, err := f.file.Write(line)
	if err != nil && n > 0 {
		if info, statErr := f.file.Stat(); statErr == nil && f.file.Truncate(info.Size()-int64(n)) == nil {
			n = 0
		}
	}
	f.bytes += int64(n)
	if err == nil {
		f.lines++
	}
	return n, err
}

// Sync returns when all lines that were written before the call are on the disk. Concurrent calls share the work.
func (f *File) Sync() error {
	f.mu.Lock()
	want := f.lines
	f.mu.Unlock()
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.synced >= want {
		return nil
	}
	f.mu.Lock()
	file, lines := f.file, f.lines
	f.mu.Unlock()
	// A rotation syncs the file before it closes it.
	if err := syncFile(file); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	f.synced = lines
	return nil
}

// syncFile syncs a file. Devices and pipes have nothing to sync.
func syncFile(file *os.File) error {
	if err := file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// due reports whether the file must be rotated before a line of that length is written. An empty file is not rotated.
func (f *File) due(line int) bool {
	full := f.conf.BytesMax > 0 && f.bytes+int64(line) > f.conf.BytesMax
	old := f.conf.AgeMax > 0 && time.Since(f.opened) >= f.conf.AgeMax
	return f.regular && f.bytes > 0 && (full || old)
}

// rotate renames the file and creates a new one. After a failure it is tried again when the next rotation is due.
func (f *File) rotate() {
	was := f.file
	err := syncFile(was)
	if err == nil {
		err = os.Rename(f.conf.Path, f.archive(time.Now()))
	}
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
	if f.file == nil {
		return nil
	}
	return errors.Join(syncFile(f.file), f.file.Close())
}
