package checks

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// exitWarning is the exit code of a script that means a warning; 0 means that the check passes, all others that it fails.
const exitWarning = 1

// runScript runs the program of the check in its task. The program is killed when ctx ends.
func (c *check) runScript(ctx context.Context, tasks Tasks) outcome {
	var out head
	code, err := tasks.RunScript(ctx, c.task, append([]string{c.spec.Command}, c.spec.Args...), &out)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{output: cut(fmt.Sprintf("the script has not ended after %v: %s", c.spec.Timeout, out.text()))}
	case err != nil:
		return failed(err)
	}
	got := outcome{passed: code == 0, warned: code == exitWarning, output: out.text()}
	if got.output == "" {
		got.output = fmt.Sprintf("nomad: script ended with exit code %d", code)
	}
	return got
}

// head keeps the first bytes of what is written to it. It may be used concurrently.
type head struct {
	mu   sync.Mutex
	kept []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), outputMax-len(h.kept))]...)
	return len(p), nil
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cut(string(h.kept))
}
