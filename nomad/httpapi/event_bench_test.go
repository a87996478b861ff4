package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/events"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// cpuTime is what this process has used of its processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEventStream has 100 subscribers over HTTP while 5,000 evaluations a second change, each at an index of its own. The
// processor time is that of the writer, the server and the subscribers, and the latency is from before a commit until a
// subscriber has read the line.
func BenchmarkEventStream(b *testing.B) {
	const subscribers, perSecond, seconds = 100, 5000, 4
	s := state.New()
	buffer := events.NewBuffer(s, 100)
	service := events.New(events.Config{State: s, Buffer: buffer, ID: "s1"})
	server := httptest.NewServer(httpapi.New(httpapi.Config{Servers: wire.Direct(service.Handlers()...), Region: "global"}))
	defer server.Close()
	index := uint64(10)
	var share, p99 float64
	for b.Loop() {
		first, n := index+1, perSecond*seconds
		written := make([]time.Time, n)
		late := make([][]time.Duration, subscribers)
		var ready, done sync.WaitGroup
		ready.Add(subscribers)
		for i := range subscribers {
			done.Go(func() { late[i] = follow(b, server.Listener.Addr().String(), first, written, ready.Done) })
		}
		ready.Wait()
		began, used := time.Now(), cpuTime(b)
		for i := range n {
			if wait := time.Until(began.Add(time.Duration(i) * time.Second / perSecond)); wait > time.Millisecond {
				time.Sleep(wait)
			}
			index++
			written[i] = time.Now()
			tx := s.Write(index, written[i])
			tx.PutEval(&api.Evaluation{
				ID: fmt.Sprintf("%08d-3c1f-43ae-a4d5-2a1f2d7ab1d2", i%1000), Namespace: "default", JobID: "web", Type: "service", Status: "complete",
				TriggeredBy: "job-register", Priority: 50,
			})
			buffer.Applied(fsm.KindEvalUpdate, index, tx.Commit())
		}
		done.Wait()
		share = float64(cpuTime(b)-used) / float64(time.Since(began))
		all := slices.Concat(late...)
		if len(all) != n*subscribers {
			b.Fatalf("%d lines, want %d", len(all), n*subscribers)
		}
		slices.Sort(all)
		p99 = float64(all[len(all)*99/100]) / float64(time.Millisecond)
	}
	b.ReportMetric(100*share, "%-of-a-core")
	b.ReportMetric(p99, "ms-p99")
}

// follow reads the lines of all indexes and returns how late each came.
func follow(b *testing.B, address string, first uint64, written []time.Time, ready func()) (late []time.Duration) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/event/stream HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReaderSize(conn, 64<<10)
	late = make([]time.Duration, 0, len(written))
	for len(late) < len(written) {
		line, err := r.ReadSlice('\n')
		if err != nil {
			b.Errorf("after %d lines: %v", len(late), err)
			return late
		}
		if string(line) == "{}\n" {
			ready()
			continue
		}
		text, found := strings.CutPrefix(string(line[:min(len(line), 40)]), `{"Index":`)
		if !found {
			continue
		}
		digits, _, _ := strings.Cut(text, ",")
		at, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || at != first+uint64(len(late)) {
			b.Errorf("line %d has the index %q: %v", len(late), digits, err)
			return late
		}
		late = append(late, time.Since(written[at-first]))
	}
	return late
}
