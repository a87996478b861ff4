package exec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func bootTime(t *testing.T) int64 {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

func TestEndOfTheLeaseStopsTheTaskWithoutAnAgent(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	source, target := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Chmod(source, 0o777), unix.Mount(source, target, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	task := suite.NewTask(t, sh(`trap '' TERM INT; setsid sh -c 'while :; do echo child >>/v/journal; sleep 0.01; done' & while :; do echo main >>/v/journal; sleep 0.01; done`))
	mark := fmt.Sprint(time.Now().UnixNano())
	task.Env["OF_LEASE"] = mark
	task.Mounts = []driver.Mount{{Source: target, Destination: "/v"}}
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}, From: bootTime(t), Unmount: []string{target}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the task writes", func() bool {
		task.Lease.From = bootTime(t)
		if err := d.Renew(task.ID, task.Lease.From); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(filepath.Join(source, "journal"))
		return bytes.Contains(b, []byte("child")) && bytes.Contains(b, []byte("main"))
	})
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	suite.Eventually(t, "all processes of the task have ended", func() bool { return !marked("OF_LEASE=" + mark) })
	if now := bootTime(t); now < task.Lease.From+int64(task.Lease.Term.Stop()) {
		t.Error("the task ended too early")
	}
	suite.Eventually(t, "the volume is unmounted", func() bool {
		table, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && !bytes.Contains(table, []byte(" "+target+" "))
	})
}
