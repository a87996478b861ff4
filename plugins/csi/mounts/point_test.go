package mounts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// answers fails the test when a question waits.
func answers[T any](t *testing.T, what string, ask func() T) (out T) {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- ask() }()
	select {
	case out = <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s waits", what)
	}
	return out
}

// autofs mounts a directory at which whoever enters waits for a daemon, which never answers.
func autofs(t *testing.T, path string) {
	t.Helper()
	root(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	// Another process group serves it; that of the caller would not be made to wait.
	server := exec.Command("sleep", "1000")
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	opts := fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", w.Fd(), server.Process.Pid)
	if err := unix.Mount("waits", path, "autofs", 0, opts); err != nil {
		t.Skipf("no automounts here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

func TestQuestionsAboutAnAutomountDoNotWaitForIt(t *testing.T) {
	path := t.TempDir()
	autofs(t, path)
	if !answers(t, "whether it is a mount", func() bool { on, err := mounts.IsPoint(path); return on && err == nil }) {
		t.Error("it is no mount")
	}
	at := answers(t, "what is mounted", func() *mounts.Entry { at, _ := mounts.At(path); return at })
	if at == nil || at.FSType != "autofs" {
		t.Fatalf("at the path is %+v", at)
	}
	if answers(t, "whether it is a device", func() bool { return mounts.System{}.IsDevice(path) }) {
		t.Error("it is a device")
	}
	if err := answers(t, "removing it", func() error { return mounts.Remove(at) }); err != nil {
		t.Error(err)
	}
	if on, err := mounts.IsPoint(path); on || err != nil {
		t.Errorf("it is mounted still: %v", err)
	}
}

// Nor for a file system whose server does not answer.
func TestQuestionsAboutAHungMountDoNotWaitForIt(t *testing.T) {
	root(t)
	path := t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Mount("hung", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_FORCE|unix.MNT_DETACH) })
	if !answers(t, "whether it is a mount", func() bool { on, err := mounts.IsPoint(path); return on && err == nil }) {
		t.Error("it is no mount")
	}
	if answers(t, "whether it is a device", func() bool { return mounts.System{}.IsDevice(path) }) {
		t.Error("it is a device")
	}
}

// The file system at a mount is never asked whether it is one: some ask their server for every question.
func TestMountPointIsKnownWithoutItsFileSystem(t *testing.T) {
	source, target := pair(t)
	for _, p := range []string{filepath.Join(source, "f"), source, target, filepath.Join(source, "none"), filepath.Join(source, "f", "x")} {
		if on, err := mounts.PointByWalk(p); err != nil || on {
			t.Errorf("%s: %v, %v", p, on, err)
		}
	}
	file := filepath.Join(target, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mounts.Unmount(file) })
	for at, what := range map[string]string{file: filepath.Join(source, "f"), target: source} {
		if at == target {
			if err := mounts.Unmount(file); err != nil {
				t.Fatal(err)
			}
		}
		if err := mounts.Bind(what, at, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		if on, err := mounts.PointByWalk(at); err != nil || !on {
			t.Errorf("a bind at %s: %v, %v", at, on, err)
		}
		if err := mounts.Unmount(at); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(source, "link")
	if err := errors.Join(os.Symlink(target, link), mounts.Bind(source, target, mounts.Flags{})); err != nil {
		t.Fatal(err)
	}
	if on, err := mounts.PointByWalk(link); err != nil || on {
		t.Errorf("a link to a mount: %v, %v", on, err)
	}
	if on, err := mounts.PointByWalk("/"); err != nil || !on {
		t.Errorf("the root: %v, %v", on, err)
	}
}
