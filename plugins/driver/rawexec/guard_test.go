package rawexec_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// container runs a script in a cgroup with an id in its name, below a cgroup as an engine makes them.
func container(t *testing.T, script string) (id string, process *exec.Cmd) {
	t.Helper()
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	id = hex.EncodeToString(b)
	var dir string
	for _, root := range []string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if dir = filepath.Join(root, "guard-"+id+".scope"); os.Mkdir(dir, 0o755) == nil {
			break
		}
		dir = ""
	}
	if dir == "" {
		t.Skip("no cgroup can be made here")
	}
	process = exec.Command("sh", "-c", "read go; "+script)
	in, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		suite.Eventually(t, "its cgroup is empty", func() bool { return os.Remove(dir) == nil })
	})
	err = errors.Join(os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(process.Process.Pid)), 0), in.Close())
	if err != nil {
		t.Fatal(err)
	}
	return id, process
}

// The agent is dead: the processes of a container end with the lease, and its volume is unmounted.
func TestGuardEndsAContainerWithTheLease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	source, target := published(t)
	id, process := container(t, `trap '' TERM INT; setsid sh -c 'while :; do echo child >>`+target+`/journal; sleep 0.01; done' & while :; do echo main >>`+target+`/journal; sleep 0.01; done`)
	lease := &driver.Lease{Term: api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}, From: bootTime(t), Unmount: []string{target}, Container: id}
	if err := d.Guard(suite.Context(t), "g", "a", lease); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(source, "journal")
	from := lease.From
	suite.Eventually(t, "the first lease is over", func() bool {
		from = bootTime(t)
		if err := d.Renew("g", from); err != nil {
			t.Fatal(err)
		}
		return from > lease.From+int64(lease.Term.Term)
	})
	if hasEnded(process.Process.Pid) || size(journal) == 0 {
		t.Fatal("the container was ended within its lease")
	}
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	suite.Eventually(t, "the volume is unmounted", func() bool { return !isMounted(t, target) })
	if now := bootTime(t); now < from+int64(lease.Term.Stop()) || now > from+int64(lease.Term.Term) {
		t.Errorf("it was unmounted %v after the last renewal", time.Duration(now-from))
	}
	before := size(journal)
	time.Sleep(100 * time.Millisecond)
	if !hasEnded(process.Process.Pid) || size(journal) != before {
		t.Error("processes of the container run")
	}
	again := newDriver(t, dir)
	h, err := again.Find(suite.Context(t), "g")
	if err == nil {
		err = again.Recover(suite.Context(t), h)
	}
	if err != nil {
		t.Fatal(err)
	}
	if x, err := again.Wait(suite.Context(t), "g"); err != nil || !x.LeaseEnded {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := again.Destroy(suite.Context(t), "g"); err != nil {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// The container ends, and its guard stays until the volume is unmounted.
func TestGuardOfAnEndedContainerKeepsTheLease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	_, target := published(t)
	id, _ := container(t, "exit 0")
	lease := &driver.Lease{Term: api.LeaseTerm{Term: time.Minute}, From: bootTime(t), Unmount: []string{target}, Container: id}
	if err := d.Guard(suite.Context(t), "g", "a", lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), "g") })
	guard := pidOf(t, d, "g", "supervisor_pid")
	if err := d.Signal(suite.Context(t), "g", "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), "g"); err != nil || x.LeaseEnded {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(suite.Context(t), "g"); err != nil {
		t.Fatal(err)
	}
	d.Keep(bootTime(t), needed)
	if hasEnded(guard) || !isMounted(t, target) {
		t.Error("no process keeps the lease")
	}
	d.Keep(0, notNeeded)
	suite.Eventually(t, "the guard has ended", func() bool { return hasEnded(guard) })
	if !isMounted(t, target) {
		t.Error("the volume was taken away within its lease")
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A lease that is over starts nothing.
func TestGuardIsRefusedAfterTheLease(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	lease := &driver.Lease{Term: api.LeaseTerm{Term: time.Second}, From: bootTime(t) - int64(time.Minute), Unmount: []string{target}, Container: "none"}
	if err := d.Guard(suite.Context(t), "g", "a", lease); !errors.Is(err, fault.Unavailable) {
		t.Errorf("guard: %v", err)
	}
}
