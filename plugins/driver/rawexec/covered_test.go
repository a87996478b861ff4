package rawexec_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// stateOf is the state path of a task with that id, made by another driver.
func stateOf(t *testing.T, id string) string {
	t.Helper()
	d := newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.NoCgroups = true })
	task := suite.NewTask(t, sh("true"))
	task.ID = id
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	var ident supervise.Ident
	if err := json.Unmarshal(h.State, &ident); err != nil {
		t.Fatal(err)
	}
	return ident.State
}

// TestVolumesOverCgroupsLeadNobodyElsewhere: a volume over the cgroups of tasks holds links that a task put there for its
// next attempt; root writes nothing through them, and the task has its cgroup.
func TestVolumesOverCgroupsLeadNobodyElsewhere(t *testing.T) {
	root := unified(t)
	const id = "covered/web/2"
	outside := t.TempDir()
	source := volume(t)
	scope := filepath.Join(source, filepath.Base(stateOf(t, id))+".scope")
	err := os.Mkdir(scope, 0o777)
	for _, name := range []string{"cpu.weight", "cgroup.kill", "cgroup.procs"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(outside, name), []byte("mine"), 0o600), os.Symlink(filepath.Join(outside, name), filepath.Join(scope, name)))
	}
	if err = errors.Join(err, os.MkdirAll(root+"/nomad.slice", 0o755)); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	task.ID, task.Resources.CPUShares = id, 5000
	task.Mounts = []driver.Mount{{Source: source, Destination: root + "/nomad.slice"}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	cgroup, err := os.ReadFile("/proc/" + strconv.Itoa(pidOf(t, d, task.ID, "pid")) + "/cgroup")
	if err != nil || !strings.Contains(string(cgroup), "0::/nomad.slice/"+filepath.Base(scope)) {
		t.Errorf("the task is in %s, %v", cgroup, err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"cpu.weight", "cgroup.kill", "cgroup.procs"} {
		if b, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(b) != "mine" {
			t.Errorf("%s outside holds %q, %v", name, b, err)
		}
	}
}

// TestVolumesLeadOtherMountsNowhere: links in a volume neither choose the source of a later mount nor where it is made.
func TestVolumesLeadOtherMountsNowhere(t *testing.T) {
	sources, outside := t.TempDir(), t.TempDir()
	hostile, own := volume(t), filepath.Join(sources, "own")
	err := errors.Join(os.Mkdir(own, 0o755), os.WriteFile(own+"/which", []byte("own\n"), 0o644),
		os.WriteFile(outside+"/which", []byte("outside\n"), 0o644), os.Symlink(outside, hostile+"/own"))
	if err != nil {
		t.Fatal(err)
	}
	covering := driver.Mount{Source: hostile, Destination: sources}
	later := driver.Mount{Source: own, Destination: strings.Repeat("/nomad-test-deep", strings.Count(sources, "/")+1)}
	if out := runMounted(t, "cat "+later.Destination+"/which", covering, later); out != "own\n" {
		t.Errorf("the task sees %q", out)
	}
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	task.Mounts = []driver.Mount{covering, {Source: own, Destination: sources + "/own/made"}}
	if _, err := d.Start(suite.Context(t), task); err == nil {
		t.Error("a mount was made by way of a link in a volume")
		_ = d.Destroy(bounded(t), task.ID)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}

// TestVolumesOverTheStateOfTasksHideNoExit: the supervising process finds its own files whatever the task sees there.
func TestVolumesOverTheStateOfTasksHideNoExit(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	task := suite.NewTask(t, sh("exit 7"))
	task.Mounts = []driver.Mount{{Source: volume(t), Destination: dir}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 7 {
		t.Fatalf("exit %+v %v", x, err)
	}
	if exits, _ := filepath.Glob(dir + "/*/*.exit"); len(exits) != 1 {
		t.Errorf("on record are %v", exits)
	}
}

// TestVolumesOverFilesOfTheHostGiveNobodyMoreRights: a program that runs as root for everybody trusts files that the job
// may put there. Volumes in the task's own directory change nothing.
func TestVolumesOverFilesOfTheHostGiveNobodyMoreRights(t *testing.T) {
	id, err := exec.LookPath("id")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	raw, err := os.ReadFile(id)
	if err == nil {
		err = errors.Join(os.WriteFile(dir+"/id", raw, 0o755), os.Chmod(dir+"/id", 0o755|os.ModeSetuid))
	}
	if err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	for dest, want := range map[string]string{"/opt": "nobody\n", "/nomad-test-rights": "nobody\n", "here": "root\n"} {
		d := newDriver(t, t.TempDir())
		task := suite.NewTask(t, sh(dir+"/id -un"))
		task.User = "nobody"
		task.Mounts = []driver.Mount{{Source: volume(t, "f"), Destination: dest}}
		open(t, task.Dir)
		if _, err := d.Start(suite.Context(t), task); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
		if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
			t.Fatalf("exit %+v %v: %s", x, err, suite.LogText(task, "stderr"))
		}
		if got := suite.LogText(task, "stdout"); got != want {
			t.Errorf("with a volume at %s a program with the bit of root runs as %q, want %q", dest, got, want)
		}
	}
}

// open lets everybody enter a temporary directory.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
