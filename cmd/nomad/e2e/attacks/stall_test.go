package attacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// from dials from an address of loopback, as another host would.
func from(ip string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 30 * time.Second}
}

// others are clients of 100 addresses that each ask ten times a second; a fifth of them connects anew for each request.
// It answers the time of each request while the load lasts.
func others(tb testing.TB, base string, load func()) []time.Duration {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for i := range 100 {
		c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: from(fmt.Sprintf("127.0.1.%d", i+1)).DialContext, DisableKeepAlives: i%5 == 0}}
		wg.Go(func() {
			defer c.CloseIdleConnections()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				began := time.Now()
				answer, err := c.Get(base + "/v1/status/leader")
				if err != nil || answer.StatusCode != http.StatusOK {
					tb.Errorf("another client: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	load()
	cancel()
	wg.Wait()
	slices.Sort(took)
	return took
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// crowd is one address that opens connections and says nothing.
type crowd struct {
	tb    testing.TB
	mu    sync.Mutex
	conns []net.Conn
}

// open opens so many connections within the time.
func (c *crowd) open(address string, n int, within time.Duration) {
	const workers = 20
	var wg sync.WaitGroup
	pause := within / time.Duration(n/workers)
	for range workers {
		wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for range n / workers {
				conn, err := from("127.0.0.2").Dial("tcp", address)
				if err == nil {
					c.mu.Lock()
					c.conns = append(c.conns, conn)
					c.mu.Unlock()
				}
				<-tick.C
			}
		})
	}
	wg.Wait()
}

// held counts those that the other side has not closed by an instant.
func (c *crowd) held(by time.Time) (n int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, conn := range c.conns {
		wg.Go(func() {
			_ = conn.SetReadDeadline(by)
			_, err := io.Copy(io.Discard, conn)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return n
}

func (c *crowd) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// crowded measures the 100 clients without and with 10,000 stalled connections of one address to the HTTP port and 1,000
// to the RPC port.
func crowded(tb testing.TB, a *kit.Agent) (quiet, loud time.Duration) {
	tb.Helper()
	at, err := url.Parse(a.API.Address())
	if err != nil {
		tb.Fatal(err)
	}
	const window = 4 * time.Second
	wait := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
	}
	quiet = p99(others(tb, a.API.Address(), func() { wait(window) }))
	web, rpc := &crowd{tb: tb}, &crowd{tb: tb}
	defer web.close()
	defer rpc.close()
	loud = p99(others(tb, a.API.Address(), func() {
		var wg sync.WaitGroup
		wg.Go(func() { web.open(at.Host, 10_000, window*3/4) })
		wg.Go(func() { rpc.open(rpcAddress(tb, a), 1_000, window*3/4) })
		wg.Wait()
		wait(window / 4)
	}))
	if n := web.held(time.Now().Add(3 * time.Second)); n > 100 {
		tb.Errorf("one address holds %d connections to the HTTP port", n)
	}
	if n := rpc.held(time.Now().Add(3 * time.Second)); n > 100 {
		tb.Errorf("one address holds %d connections to the RPC port", n)
	}
	if n := web.held(time.Now().Add(30 * time.Second)); n > 0 {
		tb.Errorf("%d connections of which no request came are open", n)
	}
	if n := rpc.held(time.Now().Add(30 * time.Second)); n > 0 {
		tb.Errorf("%d connections without a handshake are open", n)
	}
	tb.Logf("%d connections of one address; p99 of 100 others %s without them and %s with them", len(web.conns)+len(rpc.conns), quiet, loud)
	return quiet, loud
}

func rpcAddress(tb testing.TB, a *kit.Agent) string {
	tb.Helper()
	leader, err := a.API.Status().Leader()
	if err != nil {
		tb.Fatal(err)
	}
	return leader
}

// noise is what a request may take on a machine that others use without anybody's doing.
const noise = 25 * time.Millisecond

func TestStalledConnectionsOfOneAddressHurtNobodyElse(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	var tries []string
	for range 3 { // others use the machine too
		quiet, loud := crowded(t, a)
		if kit.Within(loud, max(2*quiet, noise), 1) {
			return
		}
		tries = append(tries, fmt.Sprintf("%s, then %s", quiet, loud))
	}
	t.Errorf("p99 of the others is more than doubled: %s", strings.Join(tries, "; "))
}

func BenchmarkStalledConnections(b *testing.B) {
	a := kit.Start(b)
	for b.Loop() {
		quiet, loud := crowded(b, a)
		b.ReportMetric(float64(quiet.Microseconds())/1000, "ms-p99-quiet")
		b.ReportMetric(float64(loud.Microseconds())/1000, "ms-p99-stalled")
	}
}

// TestSlowClientsAreEnded: heads, bodies and readers that come a byte at a time or not at all are closed in time, all at
// once so that the test takes as long as the slowest.
func TestSlowClientsAreEnded(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Register(kit.ShellJob("talker", "exec yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	alloc := a.Running("talker", 1)
	at, err := url.Parse(a.API.Address())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, slow := range []struct {
		name, head string
		trickle    bool // a byte each half second
		within     time.Duration
	}{
		{"nothing", "", false, 45 * time.Second},
		{"half a head", "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n", false, 45 * time.Second},
		{"a head a byte at a time", "GET /v1/jobs HTTP/1.1\r\nX: ", true, 45 * time.Second},
		{"a body that does not come", "PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", false, 75 * time.Second},
		{"a body a byte at a time", "PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", true, 75 * time.Second},
		{"a snapshot a byte at a time", "PUT /v1/operator/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", true, 75 * time.Second},
		{"a stream that nobody reads", "GET /v1/client/fs/logs/" + alloc.ID + "?task=main&type=stdout&follow=true&plain=true HTTP/1.1\r\nHost: x\r\n\r\n", false, 150 * time.Second},
	} {
		wg.Go(func() {
			conn, err := from(fmt.Sprintf("127.0.2.%d", i+1)).Dial("tcp", at.Host)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				t.Error(err)
			}
			began := time.Now()
			_, _ = io.WriteString(conn, slow.head)
			unread := strings.HasPrefix(slow.name, "a stream")
			tick := time.NewTicker(500 * time.Millisecond)
			defer tick.Stop()
			for time.Since(began) < slow.within {
				if slow.trickle || unread { // who does not read learns by writing that the other side is gone
					if _, err := io.WriteString(conn, "a"); err != nil {
						t.Logf("%s ended after %s", slow.name, time.Since(began).Round(time.Second))
						return
					}
				}
				if !unread {
					_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
					_, err := io.Copy(io.Discard, conn)
					var timeout net.Error
					if err == nil || !errors.As(err, &timeout) || !timeout.Timeout() {
						t.Logf("%s ended after %s", slow.name, time.Since(began).Round(time.Second))
						return
					}
				}
				<-tick.C
			}
			t.Errorf("%s is still open after %s", slow.name, slow.within)
		})
	}
}
