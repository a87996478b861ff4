package rawexec_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// BenchmarkStart starts 200 sleeps at once, as a node does that gets a large job, and reports how many start
// per second and what one supervising process costs in memory.
func BenchmarkStart(b *testing.B) {
	const tasks = 200
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			d := newDriver(b, b.TempDir())
			root := b.TempDir()
			for range b.N {
				began := time.Now()
				startMany(b, d, root, tasks, workers)
				b.ReportMetric(tasks/time.Since(began).Seconds(), "tasks/s")
				b.ReportMetric(proportionalSetSize(b, d, tasks), "PSS-KiB/supervisor")
				for i := range tasks {
					if err := d.Destroy(b.Context(), taskID(i)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func taskID(i int) string { return "bench/sleep/" + strconv.Itoa(i) }

func startMany(b *testing.B, d *rawexec.Driver, root string, tasks, workers int) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				dir := fmt.Sprintf("%s/%d", root, i)
				_ = os.MkdirAll(dir, 0o755)
				_, err := d.Start(b.Context(), &driver.Task{
					ID: taskID(i), Name: "sleep", Dir: dir, Logs: driver.Logs{Dir: dir},
					Config: map[string]any{"command": "/bin/sleep", "args": []any{"1000"}},
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	wg.Wait()
}

// TestSupervisorMemory holds the bound for a supervising process that shares its program with no other. The program, of which
// all on a node share one copy, takes 1.5 MiB of it.
func TestSupervisorMemory(t *testing.T) {
	const limitKiB = 2176
	d := newDriver(t, t.TempDir())
	startOne(t, d, 0)
	if pss := proportionalSetSize(t, d, 1); pss > limitKiB {
		t.Errorf("proportional set size %.0f KiB, limit %d", pss, limitKiB)
	} else {
		t.Logf("proportional set size of a lone supervising process: %.0f KiB", pss)
	}
}

func startOne(t *testing.T, d *rawexec.Driver, i int) {
	t.Helper()
	dir := t.TempDir()
	_, err := d.Start(t.Context(), &driver.Task{
		ID: taskID(i), Name: "sleep", Dir: dir, Logs: driver.Logs{Dir: dir},
		Config: map[string]any{"command": "/bin/sleep", "args": []any{"1000"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), taskID(i)) })
}

// proportionalSetSize is the mean over the supervising processes of the tasks, in KiB.
func proportionalSetSize(t testing.TB, d *rawexec.Driver, tasks int) float64 {
	t.Helper()
	sum := 0.0
	for i := range tasks {
		st, err := d.Inspect(taskID(i))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open("/proc/" + st.Attributes["supervisor_pid"] + "/smaps_rollup")
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), "Pss:"); ok {
				kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				sum += kib
			}
		}
		f.Close()
	}
	return sum / float64(tasks)
}
