package nomad_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// flushes measures how often a second a small record is written to a preallocated file and flushed, one after the other.
func flushes(b *testing.B) float64 {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const n, size = 500, 512
	if _, err := f.Write(make([]byte, n*size)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for i := range n {
		if _, err := f.WriteAt(make([]byte, size), int64(i*size)); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	return n / time.Since(began).Seconds()
}

// setVariables writes n variables by so many writers.
func setVariables(b *testing.B, h *host, writers, n int) {
	b.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := h.setVariable(fmt.Sprint("v", i), "value"); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func (h *host) setVariable(path, value string) error {
	_, err := wire.VariableApply.Call(h.t.Context(), h.server.Caller(), &api.VariableApplyRequest{Op: api.VariableSet, Path: path, Items: map[string]string{"k": value}})
	return err
}

// BenchmarkVariableWrites writes variables with the log on disk and prints how many a second, and of how many flushes a second.
func BenchmarkVariableWrites(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d/writers=64", servers), func(b *testing.B) {
			leader := newHost(b, "a", "global", 1)
			if servers == 1 {
				leader.start()
			} else {
				leader, _ = led(b, trio(b))
			}
			until(b, "the first variable", func() bool { return leader.setVariable("first", "") == nil })
			const n = 10_000
			for b.Loop() {
				began := time.Now()
				setVariables(b, leader, 64, n)
				rate := n / time.Since(began).Seconds()
				b.ReportMetric(rate, "writes/s")
				b.ReportMetric(rate/flushes(b), "of-flushes")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRotation rotates the root key of 10,000 variables while one writer continues.
func BenchmarkRotation(b *testing.B) {
	h := newHost(b, "a", "global", 1).start()
	until(b, "the first variable", func() bool { return h.setVariable("first", "") == nil })
	setVariables(b, h, 64, 10_000)
	for b.Loop() {
		if _, err := wire.KeyringRotate.Call(b.Context(), h.server.Caller(), &api.RootKeyRotateRequest{}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		var slowest time.Duration
		for i := 0; ; i++ {
			start := time.Now()
			if err := h.setVariable(fmt.Sprint("w", i%100), "value"); err != nil {
				b.Fatal(err)
			}
			slowest = max(slowest, time.Since(start))
			out, err := wire.KeyringList.Call(b.Context(), h.server.Caller(), &api.QueryOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if !slices.ContainsFunc(out.Keys, func(k *api.RootKeyMeta) bool { return k.State == api.RootKeyRekeying }) {
				break
			}
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/rotation")
		b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest-write")
	}
	b.ReportMetric(0, "ns/op")
}
