package rawexec_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// allowed is the list of cores on which a task with the reserved cores finds itself.
func allowed(t *testing.T, d *rawexec.Driver, id, cores string) string {
	t.Helper()
	dir := t.TempDir()
	task := &driver.Task{
		ID: id, Name: "t", Dir: dir, AllocDir: dir, Resources: driver.Resources{Cores: cores},
		Config: sh(`grep Cpus_allowed_list /proc/self/status > ` + dir + `/cores`),
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
