package agent_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// auditedAgent is a server whose requests are recorded.
type auditedAgent struct {
	*exec.Cmd
	url string
	log syncBuffer
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *syncBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// startAudited starts an agent in a process of its own, because it shares nothing with others that are signalled.
func startAudited(t *testing.T, sink string) *auditedAgent {
	t.Helper()
	a := startAuditedOrNot(t, sink)
	if a.url == "" {
		t.Fatalf("the agent did not start: %s", a.log.text())
	}
	return a
}

// startAuditedOrNot starts an agent that may end at once; then it has no URL.
func startAuditedOrNot(t *testing.T, sink string) *auditedAgent {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.hcl")
	body := fmt.Sprintf(`
data_dir = %q
bind_addr = "127.0.0.1"
ports {
  http = 0
  rpc  = 0
  serf = 0
}
server {
  enabled          = true
  bootstrap_expect = 1
}
audit {
  enabled = true
  sink "file" {
    %s
  }
  filter "members" {
    type       = "HTTPEvent"
    endpoints  = ["/v1/agent/members"]
    stages     = ["*"]
    operations = ["*"]
  }
}`, dir+"/data", sink)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &auditedAgent{Cmd: exec.Command(os.Args[0])}
	a.Env = append(os.Environ(), configEnv+"="+path)
	a.Stderr = &a.log
	out, err := a.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
	for lines := bufio.NewScanner(out); a.url == "" && lines.Scan(); {
		a.url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return a
}

func (a *auditedAgent) ask(path string) (int, string, error) {
	resp, err := http.Get(a.url + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func (a *auditedAgent) expect(t *testing.T, path string, code int, text string) {
	t.Helper()
	if got, body, err := a.ask(path); err != nil || got != code || !strings.Contains(body, text) {
		t.Errorf("GET %s: %d %s, %v; want %d with %q", path, got, body, err, code, text)
	}
}

// recorded counts the requests of each path in the files, whose lines must all be whole.
func recorded(t *testing.T, files string) map[string]int {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			var e struct {
				Payload struct {
					Stage   string
					Request struct{ Endpoint string }
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v: %q", name, err, line)
			}
			counts[e.Payload.Stage+" "+e.Payload.Request.Endpoint]++
		}
	}
	return counts
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestRequestsAreRecordedInFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by")
	a := startAudited(t, fmt.Sprintf("path = %q\nmode = \"0640\"\nrotate_bytes = 20000", dir+"/"))
	var clients errgroup.Group
	for range 8 {
		clients.Go(func() error {
			for range 20 {
				if code, body, err := a.ask("/v1/regions"); err != nil || code != http.StatusOK {
					return fmt.Errorf("%d %s, %w", code, body, err)
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		t.Fatal(err)
	}
	a.expect(t, "/v1/agent/members", http.StatusOK, "")
	if info, err := os.Stat(dir + "/audit.json"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	const received, complete = "OperationReceived /v1/regions", "OperationComplete /v1/regions"
	var counts map[string]int
	await(t, "the ends of all requests", func() bool { // a client may have the response before
		counts = recorded(t, dir+"/audit*.json")
		return counts[complete] == 160
	})
	if counts[received] != 160 || len(counts) != 2 {
		t.Errorf("recorded are %v", counts)
	}
	files, err := filepath.Glob(dir + "/audit-*.json")
	if err != nil || len(files) < 3 {
		t.Errorf("closed files are %v, %v", files, err)
	}
	if err := os.Rename(dir+"/audit.json", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := a.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "the file by its old name", func() bool { _, err := os.Stat(dir + "/audit.json"); return err == nil })
	a.expect(t, "/v1/status/leader", http.StatusOK, "")
	if counts := recorded(t, dir+"/audit.json"); counts["OperationReceived /v1/status/leader"] != 1 || len(counts) > 2 {
		t.Errorf("recorded after SIGHUP are %v", counts)
	}
}

// What becomes of requests while the disk of the audit log is full or read-only, and after that.
func TestRequestsWhileTheAuditLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, guarantee := range []string{"enforced", "best-effort"} {
		t.Run(guarantee, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("no tmpfs here: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			a := startAudited(t, fmt.Sprintf("path = \"%s/audit.json\"\ndelivery_guarantee = %q", dir, guarantee))
			broken := func(text string) {
				t.Helper()
				if guarantee == "enforced" {
					a.expect(t, "/v1/regions", http.StatusInternalServerError, "audit log: the event of this request cannot be written, and the request was not served: "+text)
				} else {
					a.expect(t, "/v1/regions", http.StatusOK, "global")
				}
				a.expect(t, "/v1/agent/members", http.StatusOK, "") // no event of it is kept
			}
			a.expect(t, "/v1/regions", http.StatusOK, "global")
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, 60<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 20 { // what is left of the page
				if _, _, err := a.ask("/v1/regions"); err != nil {
					t.Fatal(err)
				}
			}
			broken("no space left on device")
			await(t, "a line in the log", func() bool { return strings.Contains(a.log.text(), "cannot be written: sink=file") })
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			before := recorded(t, dir+"/audit.json")
			a.expect(t, "/v1/regions", http.StatusOK, "global")
			var after map[string]int
			await(t, "the end of the request", func() bool {
				after = recorded(t, dir+"/audit.json")
				return after["OperationComplete /v1/regions"] > before["OperationComplete /v1/regions"]
			})
			if guarantee == "enforced" && after["OperationReceived /v1/regions"] != after["OperationComplete /v1/regions"] {
				t.Errorf("recorded are %v", after)
			}
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil { // a file system that is in use cannot be made read-only
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			if err := a.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			await(t, "the answer to SIGHUP", func() bool { return strings.Contains(a.log.text(), "read-only file system") })
			a.expect(t, "/v1/regions", http.StatusOK, "global") // the old file is open

			other := startAuditedOrNot(t, fmt.Sprintf("path = \"%s/audit.json\"\ndelivery_guarantee = %q", dir, guarantee))
			if guarantee == "enforced" {
				_ = other.Wait()
				if text := other.log.text(); other.url != "" || !strings.Contains(text, "audit.sink \"file\": open log file: open "+dir+"/audit.json: read-only file system") {
					t.Errorf("an agent that can serve no request: %s", text)
				}
				return
			}
			other.expect(t, "/v1/regions", http.StatusOK, "global")
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
				t.Fatal(err)
			}
			other.expect(t, "/v1/status/leader", http.StatusOK, "")
			if counts := recorded(t, dir+"/audit.json"); counts["OperationReceived /v1/status/leader"] != 1 {
				t.Errorf("recorded are %v", counts)
			}
		})
	}
}
