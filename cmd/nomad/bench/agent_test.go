package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/rest"
)

// TestMain lets the driver collect its garbage seldom: it shares the processors with what it measures.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// agent is a server of its own process, with its log on disk.
type agent struct {
	*rest.Client
	rpc string
	// all are the RPC addresses of the servers of its cluster.
	all     []string
	pid     int
	config  string
	process *exec.Cmd
}

// startServer starts a cluster of one server.
func startServer(tb testing.TB, blocks ...string) *agent {
	tb.Helper()
	return startServers(tb, 1, blocks...)[0]
}

// startServers starts a cluster of n servers, with further blocks of their configuration, and waits until each knows the leader.
func startServers(tb testing.TB, n int, blocks ...string) []*agent {
	tb.Helper()
	if os.Getenv("NOMAD_BIN") == "" {
		tb.Skip("NOMAD_BIN does not name the program: run make bench")
	}
	var servers []*agent
	var serf []int
	var all, join []string
	for range n {
		a := &agent{rpc: fmt.Sprintf("127.0.0.1:%d", freePort(tb))}
		servers, all = append(servers, a), append(all, a.rpc)
		port := 0 // one server needs none
		if n > 1 {
			port = freePort(tb)
		}
		serf, join = append(serf, port), append(join, fmt.Sprintf("%q", fmt.Sprint("127.0.0.1:", port)))
	}
	for i, a := range servers {
		a.all = all
		peers := ""
		if n > 1 {
			peers = fmt.Sprintf("server_join {\n    retry_join = [%s]\n    retry_interval = \"1s\"\n  }", strings.Join(join, ", "))
		}
		dir, web := tb.TempDir(), freePort(tb)
		_, rpc, _ := strings.Cut(a.rpc, ":")
		a.config = filepath.Join(dir, "agent.hcl")
		text := fmt.Sprintf(`
name = "s%d"
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "WARN"
enable_debug = true
ports {
  http = %d
  rpc = %s
  serf = %d
}
server {
  enabled = true
  bootstrap_expect = %d
  %s
}
limits {
  http_max_conns_per_client = 0
  rpc_max_conns_per_client = 0
}
%s`, i, filepath.Join(dir, "data"), web, rpc, serf[i], n, peers, strings.Join(blocks, "\n"))
		if err := os.WriteFile(a.config, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		var err error
		if a.Client, err = rest.New(rest.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", web)}); err != nil {
			tb.Fatal(err)
		}
		a.launch(tb)
		tb.Cleanup(func() {
			a.kill()
			if text, _ := os.ReadFile(a.config + ".log"); tb.Failed() {
				tb.Logf("%s", text[max(0, len(text)-4000):])
			}
		})
	}
	for _, a := range servers {
		a.led(tb)
	}
	return servers
}

// launch starts the process.
func (a *agent) launch(tb testing.TB) {
	tb.Helper()
	log, err := os.OpenFile(a.config+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	a.process = exec.Command(os.Getenv("NOMAD_BIN"), "agent", "-config", a.config)
	a.process.Stdout, a.process.Stderr = log, log
	if err := a.process.Start(); err != nil {
		tb.Fatal(err)
	}
	a.pid = a.process.Process.Pid
}

// kill ends the process with SIGKILL.
func (a *agent) kill() {
	_ = a.process.Process.Kill()
	_ = a.process.Wait()
}

// led waits until the server knows the leader.
func (a *agent) led(tb testing.TB) {
	tb.Helper()
	a.until(tb, "a leader", func(ctx context.Context) bool {
		leader, err := a.Leader(ctx)
		return err == nil && leader != ""
	})
}

// profile writes a CPU profile of the server to the file that PROFILE names, of PROFILE_SECONDS from now.
func (a *agent) profile(tb testing.TB) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.writeProfile("profile?seconds="+cmp.Or(os.Getenv("PROFILE_SECONDS"), "10"), "")
	}()
	tb.Cleanup(func() { <-done })
}

// heap writes what is live in the server's memory beside the CPU profile.
func (a *agent) heap() { a.writeProfile("heap?gc=1", ".heap") }

func (a *agent) writeProfile(kind, suffix string) {
	to := os.Getenv("PROFILE")
	if to == "" {
		return
	}
	resp, err := http.Get(a.Address() + "/debug/pprof/" + kind)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	_ = os.WriteFile(to+suffix, text, 0o600)
}

func freePort(tb testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// until waits for a fact, at most five minutes.
func (a *agent) until(tb testing.TB, what string, fact func(context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	for !fact(ctx) {
		select {
		case <-ctx.Done():
			tb.Fatalf("never: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// memoryMB is a line of the server's memory in units of 10^6 bytes: VmRSS is resident now, VmHWM the most that ever was.
func (a *agent) memoryMB(line string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.pid))
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, line+":"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) * 1024 / 1e6
		}
	}
	return 0
}

// cpu is the processor time that the server has used.
func (a *agent) cpu() time.Duration { return cpuOf(a.pid) }

// cpuOf is the processor time that a process has used.
func cpuOf(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// settled waits until the server is idle: connections of nodes are made, what was asked is done.
func (a *agent) settled(tb testing.TB) {
	const look = 200 * time.Millisecond
	before := a.cpu()
	a.until(tb, "an idle server", func(context.Context) bool {
		time.Sleep(look)
		now := a.cpu()
		used := now - before
		before = now
		return used < look/10
	})
}

// applied is the raft index that the server has applied.
func (a *agent) applied(tb testing.TB) int {
	self, err := a.Self(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	n, err := strconv.Atoi(self.Stats["raft"]["applied_index"])
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
