package rawexec_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// TestStartOfWhatIsOverAtOnce starts tasks that have often ended before the driver hears that they run.
func TestStartOfWhatIsOverAtOnce(t *testing.T) {
	d := newDriver(t, t.TempDir())
	var all sync.WaitGroup
	for worker := range 100 {
		dir := t.TempDir()
		all.Go(func() {
			for i := range 2 {
				id := fmt.Sprintf("short/%d/%d", worker, i)
				if _, err := d.Start(t.Context(), &driver.Task{ID: id, Name: "t", Dir: dir, Config: sh("exit 3")}); err != nil {
					t.Error(err)
					continue
				}
				if x, err := d.Wait(t.Context(), id); err != nil || x.Code != 3 || x.Err != "" {
					t.Errorf("task %s: exit %+v, %v", id, x, err)
				}
				if err := d.Destroy(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestStartWithMoreThanASocketHolds gives a task an environment that is longer than what fits into a socket.
func TestStartWithMoreThanASocketHolds(t *testing.T) {
	d := newDriver(t, t.TempDir())
	env := map[string]string{}
	for i := range 8 {
		env[fmt.Sprintf("LONG%d", i)] = strings.Repeat("x", 100_000)
	}
	script := `[ ${#LONG0} = 100000 ] && [ ${#LONG7} = 100000 ] && exit 4`
	if _, err := d.Start(t.Context(), &driver.Task{ID: "long", Name: "t", Dir: t.TempDir(), Env: env, Config: sh(script)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), "long") })
	if x, err := d.Wait(t.Context(), "long"); err != nil || x.Code != 4 {
		t.Errorf("exit %+v, %v", x, err)
	}
}
