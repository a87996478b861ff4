package rawexec_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// silentFuse mounts a file system whose server takes requests and never answers: who asks it cannot be killed. asked
// is closed when somebody has asked.
func silentFuse(t *testing.T) (at string, asked chan struct{}, end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	at = t.TempDir()
	if err := unix.Mount("silent", at, "fuse.silent", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		unix.Close(fd)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	asked = make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1<<17)
		for told := false; ; {
			n, err := unix.Read(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT):
				continue
			case err != nil:
				return
			}
			if binary.LittleEndian.Uint32(buf[4:n]) == 26 { // the beginning of the protocol
				out := make([]byte, 80)
				binary.LittleEndian.PutUint32(out, 80)
				copy(out[8:16], buf[8:16])
				binary.LittleEndian.PutUint32(out[16:], 7)
				binary.LittleEndian.PutUint32(out[20:], 31)
				_, _ = unix.Write(fd, out)
			} else if !told {
				told = true
				close(asked)
			}
		}
	}()
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = unix.Unmount(at, unix.MNT_FORCE)
			_ = unix.Unmount(at, unix.MNT_DETACH)
			<-served
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(end)
	return at, asked, end
}

// What the kernel cannot end is told as left, also after the exit of the main process.
func TestProcessesThatTheKernelCannotEndAreTold(t *testing.T) {
	for name, script := range map[string]string{
		"main": `exec cat "$AT/x"`, "child": `cat "$AT/x" & sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, t.TempDir())
			at, asked, end := silentFuse(t)
			task := &driver.Task{ID: "stuck/" + name + "/1", Name: name, Dir: t.TempDir(), Config: sh(script), Env: map[string]string{"AT": at, "PATH": os.Getenv("PATH")}}
			if _, err := d.Start(bounded(t), task); err != nil {
				t.Fatal(err)
			}
			select {
			case <-asked:
			case <-time.After(10 * time.Second):
				t.Fatal("the task never asked")
			}
			stopped := make(chan error, 1)
			go func() { stopped <- d.Stop(bounded(t), task.ID, "SIGKILL", 0) }()
			left := untilStuck(t, d, task.ID)
			if name == "child" {
				<-stopped
				if x, err := d.Wait(bounded(t), task.ID); err != nil || x.Signal != int(unix.SIGKILL) {
					t.Fatalf("the main process has ended: %+v, %v", x, err)
				}
				left = d.Remains(task.ID)
			}
			if len(left) != 1 || left[0].Name != "cat" || !strings.Contains(driver.Explain(left), "stuck in the kernel (D state") {
				t.Errorf("left: %+v", left)
			}
			end()
			for deadline := time.Now().Add(10 * time.Second); len(d.Remains(task.ID)) > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("left although its storage answered: %+v", d.Remains(task.ID))
				}
			}
			if name == "main" {
				if err := <-stopped; err != nil {
					t.Error(err)
				}
			}
			if err := d.Destroy(bounded(t), task.ID); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob("/sys/fs/cgroup/*/nomad.slice/*stuck_" + name + "*"); len(left) > 0 {
				for _, dir := range left {
					_ = os.Remove(dir)
				}
			}
		})
	}
}

func untilStuck(t *testing.T, d *rawexec.Driver, id string) []driver.Remain {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := d.Remains(id)
		if len(left) == 1 && left[0].Stuck() && left[0].Name == "cat" {
			return left
		}
		if time.Now().After(deadline) {
			t.Skipf("this kernel ends it: %+v", left)
		}
	}
}
