package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// publish mounts a file system of its own over the target, which shows what is staged. A process beside the
// driver serves it, as with most drivers of this kind.
func publish(c call) error {
	staging, target := pathsOf(c)
	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.Command(self, "-serve", staging, target)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !mounted(target) {
		select {
		case err := <-ended:
			return fmt.Errorf("the file system ended: %w", err)
		case <-tick.C:
		}
	}
	return nil
}

// unpublish takes the mount away and then the directory. One that no longer exists is an error, which the
// specification forbids and many drivers of this kind do.
func unpublish(c call) error {
	_, target := pathsOf(c)
	if !mounted(target) {
		if _, err := os.Lstat(target); err != nil {
			return err
		}
		return os.Remove(target)
	}
	if err := syscall.Unmount(target, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return os.Remove(target)
}

func mounted(path string) bool {
	on, err := mounts.IsPoint(path)
	return err == nil && on
}

// serveFiles shows a directory at another place until that is unmounted.
func serveFiles(source, target string) error {
	root, err := fs.NewLoopbackRoot(source)
	if err != nil {
		return err
	}
	server, err := fs.Mount(target, root, &fs.Options{MountOptions: fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, FsName: "faulty", Name: "loopback",
	}})
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}

// byFUSE are the calls that a driver of that kind carries out itself.
var byFUSE = map[string]own{"NodePublishVolume": publish, "NodeUnpublishVolume": unpublish}
