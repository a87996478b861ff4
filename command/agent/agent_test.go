package agent_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/command/agent"
)

// run runs the verb and returns its exit code and what it said on standard error.
func run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	standard := os.Stderr
	os.Stderr = write
	root := command.New(agent.Command("test"))
	root.ErrWriter = write
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // an agent that comes up ends at once
	code := command.Run(ctx, root, append([]string{"nomad", "agent"}, args...))
	os.Stderr = standard
	_ = write.Close()
	body := make([]byte, 1<<16)
	n, _ := read.Read(body)
	return code, string(body[:n])
}

func TestBadStartsAreOneClearLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir, err := os.MkdirTemp("", "a") // short, for the sockets of plugins
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "file")
	port := filepath.Join(dir, "port.hcl")
	typo := filepath.Join(dir, "typo.hcl")
	plugin := filepath.Join(dir, "plugin.hcl")
	for path, body := range map[string]string{
		file: "x", typo: "client {\n  enabledd = true\n}",
		port:   fmt.Sprintf("ports {\n http = %d\n}", taken.Addr().(*net.TCPAddr).Port),
		plugin: "plugin \"raw_exec\" {\n config {\n enabled = true\n deny_envvars = [\"X\"]\n }\n}",
	} {
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing enabled": {nil, "neither server nor client is enabled"},
		"port in use":     {[]string{"-dev", "-config", port}, "address already in use"},
		"dir is a file":   {[]string{"-dev", "-data-dir", file}, "not a directory"},
		"unknown key":     {[]string{"-config", typo}, `typo.hcl:2:3: unknown key "client.enabledd"; did you mean "enabled"?`},
		"plugin's key":    {[]string{"-dev", "-config", plugin}, `plugin "raw_exec": config of driver raw_exec: "deny_envvars" is not known`},
		"missing file":    {[]string{"-config", "/nonexistent.hcl"}, "/nonexistent.hcl"},
		"bad meta":        {[]string{"-dev", "-meta", "rack"}, `-meta "rack" is not key=value`},
		"bad log level":   {[]string{"-dev", "-log-level", "LOUD"}, `log_level "LOUD"`},
	} {
		code, said := run(t, c.args...)
		if code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, said %q, want %q", name, code, said, c.want)
		}
	}
}
