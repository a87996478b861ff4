package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// versionWait bounds how long a program may take to print its version, and versionMax how many bytes are read.
	versionWait = 15 * time.Second
	versionMax  = 16 << 10
)

// Program is a program of the node that tasks run. Its zero value is ready.
type Program struct {
	mu   sync.Mutex
	seen string
	text string
}

// Find returns the absolute path of a program, which is looked for in the PATH of the agent, without symbolic links. The
// error is of class fault.NotFound when the node does not have it.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fault.New(fault.NotFound, "no program %q in the PATH of the agent", name)
	}
	return path, nil
}

// Version runs the program with arguments that make it print its version, and returns what it printed on both outputs,
// at most 16 KiB. It runs again when the file at the path was replaced, or after an error.
func (p *Program) Version(ctx context.Context, path string, args ...string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	seen := fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
	if seen == p.seen {
		return p.text, nil
	}
	text, err := output(ctx, path, args)
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", path, strings.Join(args, " "), err)
	}
	p.seen, p.text = seen, text
	return text, nil
}

func output(ctx context.Context, path string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	var out head
	c := exec.CommandContext(ctx, path, args...)
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err := c.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fault.New(fault.Unavailable, "no result after %v", versionWait)
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		return "", fault.New(fault.Unavailable, "%w: %.200q", err, first)
	}
	return out.String(), nil
}

// head keeps the first bytes that are written.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	h.Buffer.Write(b[:min(len(b), max(versionMax-h.Len(), 0))])
	return len(b), nil
}
