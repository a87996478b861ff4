package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestOnlyALoopbackInterface starts a second agent in a network namespace of its own and talks to it with
// the command line from inside.
func TestOnlyALoopbackInterface(t *testing.T) {
	t.Parallel()
	kit.WithoutACL(t, "starts its agents without the switch")
	for _, tool := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	outside := kit.Start(t)
	outside.Kill()
	// Below the first agent's directory: what is left over ends with it.
	data, config := filepath.Join(outside.Dir, "inside"), filepath.Join(outside.Dir, "agent.hcl")
	body, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(outside.Dir, "inside.hcl")
	if err := os.WriteFile(inside, []byte(strings.Replace(string(body), outside.Dir+"/data", data, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(outside.Dir, "inside.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	agent := exec.Command("unshare", "--net", "sh", "-c", `ip link set lo up && exec "$0" agent -config "$1"`, outside.Binary, inside)
	agent.Stdout, agent.Stderr = log, log
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the agent inside:\n%s", text)
		}
	}()
	run := func(args ...string) (string, error) {
		cmd := exec.Command("nsenter", append([]string{"--net", "--target", strconv.Itoa(agent.Process.Pid), outside.Binary}, args...)...)
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+outside.API.Address())
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("nomad %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	outside.Until(20*time.Second, "a node", func() error {
		out, err := run("node", "status")
		if err == nil && !strings.Contains(out, "ready") {
			err = fmt.Errorf("nodes: %s", out)
		}
		return err
	})
	job := filepath.Join(outside.Dir, "job.hcl")
	if err := os.WriteFile(job, []byte(`job "alone" {
  type = "batch"
  group "g" {
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo it runs"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run("job", "run", "-detach", job); err != nil {
		t.Fatal(err)
	}
	outside.Until(20*time.Second, "the job's log", func() error {
		out, err := run("alloc", "logs", "-job", "alone")
		if err == nil && !strings.Contains(out, "it runs") {
			err = fmt.Errorf("log is %q", out)
		}
		return err
	})
}
