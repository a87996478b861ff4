package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/open-nomad/open-nomad/api/fault"
)

// outputMax is the number of bytes of the output of a plugin that are kept: results are small.
const outputMax = 1 << 20

// runner runs plugins in process groups of their own, which end with the context: plugins call other plugins.
type runner struct{ version.PluginDecoder }

// FindInPath returns the path of a plugin.
func (*runner) FindInPath(plugin string, paths []string) (string, error) {
	path, err := invoke.FindInPath(plugin, paths)
	if err != nil {
		return "", fault.New(fault.NotFound, "CNI plugin %q is not in client.cni_path (%s): install it", plugin, strings.Join(paths, ":"))
	}
	return path, nil
}

// ExecPlugin runs a plugin and returns its output.
func (*runner) ExecPlugin(ctx context.Context, path string, input []byte, environ []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = environ, bytes.NewReader(input), time.Second
	out, said := &limited{}, &limited{}
	cmd.Stdout, cmd.Stderr = out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cause := ctx.Err(); cause != nil && err != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return nil, fault.New(fault.Unavailable, "CNI plugin %s does not end in time and was killed", filepath.Base(path))
		}
		return nil, cause
	}
	if err == nil && out.over {
		err = fmt.Errorf("its output has more than %d bytes", outputMax)
	}
	if err != nil {
		var reported types.Error
		if json.Unmarshal(out.kept.Bytes(), &reported) == nil && reported.Msg != "" {
			return nil, fault.New(fault.Unavailable, "CNI plugin %s: %s", filepath.Base(path), brief(reported.Error()))
		}
		return nil, fault.New(fault.Unavailable, "CNI plugin %s: %s: %w", filepath.Base(path), brief(said.kept.String()+" "+out.kept.String()), err)
	}
	return out.kept.Bytes(), nil
}

// brief is the first line of a text, with at most 200 bytes.
func brief(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}

// limited keeps the first outputMax bytes that are written to it.
type limited struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no limit
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), outputMax-l.kept.Len())
	l.over = l.over || keep < len(p)
	_, _ = l.kept.Write(p[:keep])
	return len(p), nil
}
