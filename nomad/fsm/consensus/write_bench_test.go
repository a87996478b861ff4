package consensus_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

// BenchmarkWrites commits small commands with the logs on disk and prints how many a second, and of how many that
// the disk takes right after, when nothing but batches of records are written to preallocated files and flushed.
func BenchmarkWrites(b *testing.B) {
	for _, servers := range []int{1, 3} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("servers=%d/writers=%d", servers, writers), func(b *testing.B) {
				leader := clusterOf(b, servers)
				propose := func(i int64) error {
					_, err := leader.Propose(b.Context(), &mark{"n" + strconv.FormatInt(i%1000, 10)})
					return err
				}
				n := 1000 * writers
				for b.Loop() {
					used := cputimetest.Process()
					rate := together(b, writers, n, propose)
					b.ReportMetric(float64((cputimetest.Process()-used).Microseconds())/float64(n), "cpu-us/write")
					b.ReportMetric(rate, "writes/s")
					b.ReportMetric(rate/limit(b, servers, writers, n), "of-limit")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// clusterOf opens servers with logs on disk and answers the one that leads.
func clusterOf(b *testing.B, n int) *consensus.Raft {
	var all []*member
	var peers []api.RaftServer
	for i := range n {
		m := unformedIn(b, b.TempDir(), fmt.Sprint("s", i))
		all, peers = append(all, m), append(peers, api.RaftServer{ID: m.id, Address: m.address, Voter: true})
	}
	if err := all[0].Bootstrap(peers); err != nil {
		b.Fatal(err)
	}
	var leader *consensus.Raft
	until(b, "a leader", func() bool {
		for _, m := range all {
			if m.IsLeader() {
				leader = m.Raft
			}
		}
		return leader != nil
	})
	return leader
}

// together answers how many of n calls, so many at once, ended a second.
func together(b *testing.B, width, n int, do func(i int64) error) float64 {
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range width {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// recordSize is about what a command of the benchmark takes in the log, in bytes.
const recordSize = 64

// plainLog is a log of nothing but records: what waits when a flush ends is written and flushed together, to as
// many files as there are servers.
type plainLog struct {
	files   []*os.File
	kick    chan struct{}
	mu      sync.Mutex
	records []byte
	waiting []chan struct{}
}

func (l *plainLog) write(record []byte) {
	done := make(chan struct{})
	l.mu.Lock()
	l.records, l.waiting = append(l.records, record...), append(l.waiting, done)
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	<-done
}

func (l *plainLog) flush(b *testing.B) {
	for range l.kick {
		l.mu.Lock()
		records, waiting := l.records, l.waiting
		l.records, l.waiting = nil, nil
		l.mu.Unlock()
		var group sync.WaitGroup
		for _, f := range l.files {
			group.Go(func() {
				if _, err := f.Write(records); err != nil {
					b.Error(err)
				}
				if err := unix.Fdatasync(int(f.Fd())); err != nil {
					b.Error(err)
				}
			})
		}
		group.Wait()
		for _, done := range waiting {
			close(done)
		}
	}
}

// limit answers how many of n records a plain log takes a second.
func limit(b *testing.B, logs, writers, n int) float64 {
	l := &plainLog{kick: make(chan struct{}, 1)}
	for i := range logs {
		f, err := os.Create(filepath.Join(b.TempDir(), fmt.Sprint("log", i)))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		// Blocks that were written before need no change of the file system's own data when they are written again.
		if _, err := f.Write(make([]byte, n*recordSize)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		l.files = append(l.files, f)
	}
	var flusher sync.WaitGroup
	flusher.Go(func() { l.flush(b) })
	rate := together(b, writers, n, func(int64) error { l.write(make([]byte, recordSize)); return nil })
	close(l.kick)
	flusher.Wait()
	return rate
}
