package agent_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/command/agent"
)

// configEnv makes this program an agent with that configuration.
const configEnv = "TEST_AGENT_CONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(configEnv); path != "" {
		os.Exit(command.Run(context.Background(), command.New(agent.Command("test")), []string{"nomad", "agent", "-config", path}))
	}
	os.Exit(m.Run())
}

func TestHangupDuringTheStartEndsNothing(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.hcl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	starting := exec.Command(os.Args[0])
	starting.Env = append(os.Environ(), configEnv+"="+pipe)
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	config, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the agent reads
	if err != nil {
		t.Fatal(err)
	}
	if err := starting.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_, err = config.WriteString("nonsense = 1\n")
	if err := errors.Join(err, config.Close()); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := starting.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the agent ended with %v, not with what it says of its configuration", err)
	}
}
