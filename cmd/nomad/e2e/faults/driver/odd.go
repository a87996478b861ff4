package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// odd mounts the directories of the storage in ways that the specification does not forbid, or that it does and
// that drivers have all the same.
type odd struct{ how, dir string }

// does are the calls that the driver carries out itself.
func (o *odd) does() map[string]own {
	return map[string]own{
		"NodeStageVolume": o.stage, "NodeUnstageVolume": o.unstage, "NodePublishVolume": o.publish, "NodeUnpublishVolume": o.unpublish,
	}
}

// late is the time between the reply of an early driver and its staging.
const late = time.Second

func (o *odd) stage(c call) error {
	staging, _ := pathsOf(c)
	source := filepath.Join(o.dir, "data", filepath.Base(c.GetVolumeId()))
	if o.how == "early" {
		time.AfterFunc(late, func() {
			if err := o.bind(source, staging); err != nil {
				fmt.Fprintln(os.Stderr, "late:", err)
			}
		})
		return nil
	}
	return o.bind(source, staging)
}

func (o *odd) publish(c call) error {
	return o.bind(pathsOf(c))
}

func (o *odd) bind(source, path string) error {
	if mounted(path) && o.how != "over" {
		return nil
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := syscall.Mount(source, path, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, path, err)
	}
	if o.how == "shared" {
		return syscall.Mount("", path, "", syscall.MS_SHARED, "")
	}
	return nil
}

func (o *odd) unstage(c call) error {
	staging, _ := pathsOf(c)
	return o.unbind(staging)
}

func (o *odd) unpublish(c call) error {
	_, target := pathsOf(c)
	return o.unbind(target)
}

// unbind takes one mount away, and the path when nothing is mounted there any more.
func (o *odd) unbind(path string) error {
	if mounted(path) {
		flags := 0
		if o.how == "lazy" {
			flags = syscall.MNT_DETACH
		}
		if err := syscall.Unmount(path, flags); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if mounted(path) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
