package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// loopOn gives the volume's image a loop device of this node and returns the device. The image is opened
// by the node's own name for it, so that the device is found again without any record.
func (d *driver) loopOn(v *volume) (string, error) {
	image := d.books.image(d.conf.NodeID, v.ID)
	if err := os.Link(d.books.data(v.ID), image); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("name image: %w", err)
	}
	device, err := findLoop(image)
	if err != nil || device != "" {
		return device, err
	}
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	return attachLoop(f)
}

// attachLoop takes a free loop device; others may take the same one first, then the next is tried.
func attachLoop(image *os.File) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("loop devices: %w", err)
	}
	defer control.Close()
	for range 64 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find free loop device: %w", err)
		}
		path := fmt.Sprintf("/dev/loop%d", n)
		err = configureLoop(path, image)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return "", fmt.Errorf("attach %s: %w", path, err)
		}
	}
	return "", errors.New("no free loop device")
}

func configureLoop(path string, image *os.File) error {
	dev, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{Fd: uint32(image.Fd())})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) {
		err = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(image.Fd()))
	}
	return err
}

// findLoop returns the loop device over an image, by the name under which it was opened; "" when none.
func findLoop(image string) (string, error) {
	if real, err := filepath.EvalSymlinks(filepath.Dir(image)); err == nil {
		image = filepath.Join(real, filepath.Base(image))
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", fmt.Errorf("list loop devices: %w", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if strings.TrimSpace(string(raw)) == image {
			return "/dev/" + strings.Split(file, "/")[3], nil
		}
	}
	return "", nil
}

// loopOff detaches the node's loop device of the volume and forgets the node's name for the image.
func (d *driver) loopOff(v *volume) error {
	image := d.books.image(d.conf.NodeID, v.ID)
	for {
		device, err := findLoop(image)
		if err != nil {
			return err
		}
		if device == "" {
			break
		}
		if err := detachLoop(device); err != nil {
			return fmt.Errorf("detach %s: %w", device, err)
		}
	}
	if err := os.Remove(image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget image: %w", err)
	}
	return nil
}

// detachLoop detaches a device; one that is still open refuses instead of vanishing later.
func detachLoop(device string) error {
	dev, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	err = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil
	}
	return err
}

func growLoop(image string) error {
	device, err := findLoop(image)
	if err != nil || device == "" {
		return err
	}
	dev, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("grow %s: %w", device, err)
	}
	defer dev.Close()
	if err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("grow %s: %w", device, err)
	}
	return nil
}
