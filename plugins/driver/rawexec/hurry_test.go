package rawexec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// niceOf is the nice value of each thread of a process.
func niceOf(t *testing.T, pid int) map[int]int {
	t.Helper()
	out := map[int]int{}
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	for _, at := range threads {
		tid, _ := strconv.Atoi(filepath.Base(at))
		if nice, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil {
			out[tid] = 20 - nice
		}
	}
	return out
}

// What is left of a lease may be short, and the host busy: who takes the volumes away goes before others then, and not
// before the end of the lease.
func TestWhoTakesVolumesAwayGoesBeforeOthers(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	term := api.LeaseTerm{Term: time.Minute, WriteBack: 30 * time.Second}
	task := leasedTask(t, target, "sleep 1000", term)
	task.Lease.From -= int64(term.Stop() - 3*time.Second)
	_, supervisor := begin(t, d, task)
	before, usual := niceOf(t, supervisor), niceOf(t, os.Getpid())[os.Getpid()]
	if bootTime(t) < task.Lease.From+int64(term.Stop()) && !allAre(before, usual) {
		t.Errorf("within the lease its threads have nice %v", before)
	}
	busy, err := os.Open(target) // so that it is not unmounted at once
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	suite.Eventually(t, "the end of the lease", func() bool { return bootTime(t) >= task.Lease.From+int64(term.Stop()) })
	suite.Eventually(t, "all threads go before others", func() bool { return allAre(niceOf(t, supervisor), -20) })
	if !isMounted(t, target) {
		t.Error("it is unmounted though it is busy")
	}
}

func allAre(threads map[int]int, nice int) bool {
	for _, n := range threads {
		if n != nice {
			return false
		}
	}
	return len(threads) > 0
}
