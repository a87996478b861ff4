package rawexec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// allowed is the list of cores on which a task with the reserved cores finds itself after some commands.
func allowed(t *testing.T, d *rawexec.Driver, id, cores string, commands ...string) string {
	t.Helper()
	dir := t.TempDir()
	task := &driver.Task{
		ID: id, Name: "t", Dir: dir, AllocDir: dir, Resources: driver.Resources{Cores: cores},
		Config: sh(strings.Join(commands, "; ") + "\n" + `grep Cpus_allowed_list /proc/self/status > ` + dir + `/cores`),
	}
	if _, err := d.Start(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), id) })
	if exit, err := d.Wait(t.Context(), id); err != nil || exit.Code != 0 {
		t.Fatalf("%+v %v", exit, err)
	}
	b, err := os.ReadFile(dir + "/cores")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), ":")
	return strings.TrimSpace(list)
}

func TestTasksRunOnTheirCores(t *testing.T) {
	d := newDriver(t, t.TempDir())
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	free := allowed(t, d, "free", "")
	for core := range 1024 {
		if !mine.IsSet(core) {
			continue
		}
		if got := allowed(t, d, "pinned-"+strconv.Itoa(core), strconv.Itoa(core)); got != strconv.Itoa(core) {
			t.Errorf("a task with core %d runs on %q", core, got)
		}
	}
	if got := allowed(t, d, "free-again", ""); got != free {
		t.Errorf("a task without cores runs on %q, before on %q", got, free)
	}
}

// The kernel holds a task to its cores where it has a controller for that; the task and what it starts
// cannot take others.
func TestTasksCannotLeaveTheirCores(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cpuset/cpuset.cpus"); err != nil {
		t.Skip("no cgroup v1 controller of cores")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip(err)
	}
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil || mine.Count() < 2 || !mine.IsSet(0) || !mine.IsSet(1) {
		t.Skip("needs the first two cores")
	}
	d := newDriver(t, t.TempDir())
	for _, core := range []string{"0", "1"} {
		if got := allowed(t, d, "held-"+core, core, taskset+" -pc 0,1 $$ >/dev/null"); got != core {
			t.Errorf("a task with core %s took %q", core, got)
		}
	}
	if got := allowed(t, d, "together", "0-1"); got != "0-1" {
		t.Errorf("a task with two cores runs on %q", got)
	}
	left, err := filepath.Glob("/sys/fs/cgroup/cpuset/*/*held-*.scope")
	if err != nil || len(left) != 0 {
		t.Errorf("cpusets are left: %v %v", left, err)
	}
}

func TestCoresThatAreNotThere(t *testing.T) {
	d := newDriver(t, t.TempDir())
	for _, cores := range []string{"16000", "x"} {
		dir := t.TempDir()
		_, err := d.Start(t.Context(), &driver.Task{
			ID: "lost", Name: "t", Dir: dir, AllocDir: dir, Config: sh("true"), Resources: driver.Resources{Cores: cores},
		})
		if err == nil || !strings.Contains(err.Error(), "cores") {
			t.Errorf("cores %q: %v", cores, err)
		}
	}
}
