package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
)

// A disk that hangs below the files of this process must not hold up the end of a lease, which the same loop keeps.
func TestHungDiskDoesNotHoldUpTheLookAtTheFiles(t *testing.T) {
	const asChild = "LOOK_AT_FILES"
	if os.Getenv(asChild) != "" {
		s := &supervisor{state: &state{}, agents: [4]agent{{fd: -1}, {fd: -1}, {fd: -1}, {fd: -1}}}
		for range 3 {
			s.state.look = 0
			if s.abandoned() || s.isForgotten() {
				t.Error("a disk that hangs is taken for one that is gone")
			}
		}
		if !s.state.outlook.looking.Load() {
			t.Error("the disk does not hang")
		}
		return
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	defer dev.Close()
	at := t.TempDir()
	if err := syscall.Mount("hung", at, "fuse", 0, "fd="+strconv.Itoa(int(dev.Fd()))+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	defer func() { _ = syscall.Unmount(at, syscall.MNT_FORCE|syscall.MNT_DETACH) }()
	lock, err := syscall.Open(at, bind.OPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), asChild+"=1")
	c.ExtraFiles = []*os.File{null, os.NewFile(uintptr(lock), at)} // the second is number 4, the lock
	ended := make(chan error, 1)
	go func() {
		out, err := c.CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		_ = syscall.Unmount(at, syscall.MNT_FORCE|syscall.MNT_DETACH)
		t.Error("it waits for the disk")
		<-ended
	}
}
