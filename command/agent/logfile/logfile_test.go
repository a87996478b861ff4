package logfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/command/agent/logfile"
)

// texts are what the files of the directory hold, the archives by age before the present one.
func texts(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "nomad-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var all []string
	for _, name := range append(names, filepath.Join(dir, logfile.Default)) {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(body))
	}
	return all
}

func open(t *testing.T, c logfile.Config) *logfile.File {
	t.Helper()
	f, err := logfile.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func write(t *testing.T, f *logfile.File, lines ...string) {
	t.Helper()
	for _, l := range lines {
		time.Sleep(time.Second) // of virtual time
		if n, err := f.Write([]byte(l)); n != len(l) || err != nil {
			t.Fatalf("%q: %d bytes, %v", l, n, err)
		}
	}
}

func expect(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := texts(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestAFileIsClosedBeforeItIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, logfile.Config{Path: dir + "/", BytesMax: 10})
		write(t, f, "12345\n", "678\n", "ab\n", "a line above the bound\n", "z\n")
	})
	expect(t, dir, "12345\n678\n", "ab\n", "a line above the bound\n", "z\n")
}

func TestAFileIsClosedWhenItIsOld(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, logfile.Config{Path: filepath.Join(dir, logfile.Default), AgeMax: time.Hour})
		write(t, f, "a\n", "b\n")
		time.Sleep(time.Hour)
		write(t, f, "c\n")
		time.Sleep(time.Hour - 2*time.Second)
		write(t, f, "d\n")
	})
	expect(t, dir, "a\nb\n", "c\nd\n")
}

func TestTheNewestArchivesAreKept(t *testing.T) {
	for keep, want := range map[int][]string{0: {"1\n", "2\n", "3\n", "4\n"}, 2: {"2\n", "3\n", "4\n"}, -1: {"4\n"}} {
		dir := t.TempDir()
		other := filepath.Join(dir, "nomad-audit.log")
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			f := open(t, logfile.Config{Path: filepath.Join(dir, logfile.Default), BytesMax: 1, ArchivesMax: keep})
			write(t, f, "1\n", "2\n", "3\n", "4\n")
		})
		if err := os.Remove(other); err != nil {
			t.Errorf("keep %d: what is no archive: %v", keep, err)
		}
		expect(t, dir, want...)
	}
}

// An agent that starts again goes on with the file, whose size counts.
func TestAFileIsGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := logfile.Config{Path: dir + "/", BytesMax: 10}
		f := open(t, c)
		write(t, f, "12345\n")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		write(t, open(t, c), "678\n", "90\n")
	})
	expect(t, dir, "12345\n678\n", "90\n")
}

func TestNoLineIsLostWhereAFileCannotBeRenamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := open(t, logfile.Config{Path: filepath.Join(dir, logfile.Default), BytesMax: 3})
		write(t, f, "1\n")
		if err := os.Rename(dir, dir+".moved"); err != nil {
			t.Fatal(err)
		}
		write(t, f, "2\n", "3\n", "4\n")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, f, "5\n", "6\n")
	})
	expect(t, dir+".moved", "1\n2\n3\n4\n")
	expect(t, dir, "5\n", "6\n")
}

// Another program, such as logrotate, renames the file, and the agent is asked to open it again.
func TestAFileIsOpenedAgainByItsName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logfile.Default)
	f := logfile.New(logfile.Config{Path: path, Mode: 0o640})
	if _, err := f.Write([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Rename(path, filepath.Join(dir, "nomad-0.log")), f.Reopen()); err != nil {
		t.Fatal(err)
	}
	_, err := f.Write([]byte("2\n"))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	expect(t, dir, "1\n", "2\n")
}

// A disk that is full takes a part of the line.
func TestAPartOfALineIsRemoved(t *testing.T) {
	dir := t.TempDir()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	f := open(t, logfile.Config{Path: dir + "/"})
	limit := func(bytes uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(10)
	n, err := f.Write([]byte("12345\n"))
	_, full := f.Write([]byte("6789012345\n"))
	limit(was.Cur)
	if n != 6 || err != nil || !errors.Is(full, syscall.EFBIG) {
		t.Errorf("%d bytes, %v; %v", n, err, full)
	}
	if _, err := f.Write([]byte("again\n")); err != nil {
		t.Error(err)
	}
	expect(t, dir, "12345\nagain\n")
}

func TestConcurrentWritersSync(t *testing.T) {
	dir := t.TempDir()
	f := open(t, logfile.Config{Path: dir + "/", BytesMax: 20})
	var writers errgroup.Group
	for range 8 {
		writers.Go(func() error {
			for range 20 {
				_, err := f.Write([]byte("123456789\n"))
				if err := errors.Join(err, f.Sync()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(texts(t, dir), ""); all != strings.Repeat("123456789\n", 160) {
		t.Errorf("%d bytes", len(all))
	}
}
