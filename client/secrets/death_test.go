package secrets_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/secrets"
)

// TestProviderEndsWithItsAgent kills a process that waits for a provider.
func TestProviderEndsWithItsAgent(t *testing.T) {
	if dir := os.Getenv("PROVIDER_DIR"); dir != "" {
		f := &secrets.Fetcher{Servers: cluster{}, Dir: dir}
		_, _ = f.Fetch(t.Context(), task, []*api.Secret{{Name: "s", Provider: "p", Path: "x"}})
		return
	}
	fifo := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), "PROVIDER_DIR="+provider(t, "p", "exec >"+strconv.Quote(fifo)+"\necho x\nexec sleep 1000"))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if n, _ := r.Read(b); n == 2 {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the provider has not begun")
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if err := r.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(b); n != 0 || os.IsTimeout(err) {
		t.Errorf("the provider runs: %d %v", n, err)
	}
}
