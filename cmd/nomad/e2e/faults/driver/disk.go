package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/internal/disktest"
)

// disk is a block device with a file system that all nodes reach and that is the storage of every volume.
type disk struct{ device, kind, dir, node string }

// does are the calls that the driver carries out itself.
func (d *disk) does() map[string]own {
	return map[string]own{
		"NodeStageVolume": d.stage, "NodeUnstageVolume": d.unstage, "NodePublishVolume": d.publish, "NodeUnpublishVolume": d.unpublish,
	}
}

// quiet is how long the device is watched before it is mounted.
const quiet = time.Second

// stage mounts the device, and notes first whether another node still uses it and how much it is given meanwhile.
func (d *disk) stage(c call) error {
	staging, _ := pathsOf(c)
	if mounted(staging) {
		return nil
	}
	seen := script.Staged{Node: d.node, At: time.Now()}
	fd, err := syscall.Open(d.device, syscall.O_RDONLY|syscall.O_EXCL|syscall.O_CLOEXEC, 0)
	if seen.Busy = errors.Is(err, syscall.EBUSY); err == nil {
		_ = syscall.Close(fd)
	}
	if seen.Before, err = disktest.Written(d.device); err != nil {
		return err
	}
	time.Sleep(quiet)
	if seen.After, err = disktest.Written(d.device); err != nil {
		return err
	}
	if err := script.NoteStaged(d.dir, seen); err != nil {
		return err
	}
	if err := os.Mkdir(staging, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syscall.Mount(d.device, staging, d.kind, 0, "")
}

func (d *disk) publish(c call) error {
	staging, target := pathsOf(c)
	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syscall.Mount(staging, target, "", syscall.MS_BIND, "")
}

func (d *disk) unstage(c call) error {
	staging, _ := pathsOf(c)
	return unmount(staging)
}

func (d *disk) unpublish(c call) error {
	_, target := pathsOf(c)
	if err := unmount(target); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func unmount(path string) error {
	if !mounted(path) {
		return nil
	}
	if err := syscall.Unmount(path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}
