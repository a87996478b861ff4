package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// sealed is a folder with certificates and the agents that use them.
type sealed struct {
	t       *testing.T
	bin     string
	dir     string
	http    int
	rpc     int
	process map[string]*exec.Cmd
}

func newSealed(t *testing.T) *sealed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("raw_exec tasks need root")
	}
	bin := os.Getenv("NOMAD_BIN")
	if bin == "" {
		t.Skip("NOMAD_BIN does not name the binary: run make e2e")
	}
	dir, err := os.MkdirTemp("", "tls") // short, because unix socket paths are
	if err != nil {
		t.Fatal(err)
	}
	s := &sealed{t: t, bin: bin, dir: dir, process: map[string]*exec.Cmd{}}
	t.Cleanup(s.remove)
	s.http, s.rpc = kit.FreePort(s.t), kit.FreePort(s.t)
	s.run("tls", "ca", "create")
	for _, role := range []string{"-server", "-client", "-cli"} {
		s.run("tls", "cert", "create", role)
	}
	return s
}

// try runs the command line in the folder.
func (s *sealed) try(args ...string) (string, error) {
	cmd := exec.Command(s.bin, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("NOMAD_ADDR=https://127.0.0.1:%d", s.http), "NOMAD_CACERT=nomad-agent-ca.pem")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *sealed) run(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("nomad %v: %v: %s", args, err, out)
	}
	return out
}

// agent starts an agent with a certificate of the folder.
func (s *sealed) agent(name, certificate, body string) {
	s.t.Helper()
	config := fmt.Sprintf(`
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "INFO"
%s
plugin "raw_exec" {
  config {
    enabled = true
  }
}
tls {
  http = true
  rpc = true
  verify_server_hostname = true
  verify_https_client = true
  ca_file = %q
  cert_file = %q
  key_file = %q
}`, filepath.Join(s.dir, name), body, filepath.Join(s.dir, "nomad-agent-ca.pem"),
		filepath.Join(s.dir, certificate+".pem"), filepath.Join(s.dir, certificate+"-key.pem"))
	path := filepath.Join(s.dir, name+".hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(s.bin, "agent", "-config", path)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.process[name] = cmd
}

func (s *sealed) log(name string) string {
	body, _ := os.ReadFile(filepath.Join(s.dir, name+".log"))
	return string(body)
}

// remove ends the agents, then whatever runs from the folder.
func (s *sealed) remove() {
	for name, p := range s.process {
		_ = p.Process.Kill()
		_ = p.Wait()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, s.log(name))
		}
	}
	s.until("an empty folder", s.sweep)
}

// sweep ends the processes of the folder, takes its mounts away and removes it.
func (s *sealed) sweep() error {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		var pid int
		if _, bad := fmt.Sscan(e.Name(), &pid); err == nil && bad == nil && pid != os.Getpid() &&
			strings.Contains(string(line)+string(env), s.dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], s.dir+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
	return os.RemoveAll(s.dir)
}

func (s *sealed) until(what string, check func() error) {
	s.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			s.t.Fatalf("waited for %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// TestMutualTLS: a server and a node with certificates run a job; who has none, or the wrong one, is
// told so; new certificates are taken over while a query waits.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	kit.WithoutACL(t, "starts its agents without the switch")
	s := newSealed(t)
	s.agent("server", "global-server-nomad", fmt.Sprintf(`
ports {
  http = %d
  rpc = %d
  serf = %d
}
server {
  enabled = true
  bootstrap_expect = 1
}`, s.http, s.rpc, kit.FreePort(s.t)))
	join := func() string {
		return fmt.Sprintf(`
ports {
  http = %d
}
client {
  enabled = true
  servers = ["127.0.0.1:%d"]
}`, kit.FreePort(s.t), s.rpc)
	}
	s.agent("node", "global-client-nomad", join())
	s.agent("impostor", "global-cli-nomad", join())
	client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("https://127.0.0.1:%d", s.http), TLSConfig: &api.TLSConfig{
		CACert: filepath.Join(s.dir, "nomad-agent-ca.pem"), ClientCert: filepath.Join(s.dir, "global-cli-nomad.pem"),
		ClientKey: filepath.Join(s.dir, "global-cli-nomad-key.pem"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.until("a ready node", func() error {
		nodes, _, err := client.Nodes().List(nil)
		if err == nil && (len(nodes) != 1 || nodes[0].Status != "ready") {
			err = fmt.Errorf("%d nodes", len(nodes))
		}
		return err
	})
	job := "job \"calm\" {\n group \"g\" {\n  task \"t\" {\n   driver = \"raw_exec\"\n   config {\n    command = \"/bin/sleep\"\n    args = [\"600\"]\n   }\n  }\n }\n}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "calm.hcl"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("job", "run", "-client-cert", "global-cli-nomad.pem", "-client-key", "global-cli-nomad-key.pem", "calm.hcl")
	s.until("a running task", func() error {
		allocs, _, err := client.Jobs().Allocations("calm", false, nil)
		if err == nil && (len(allocs) != 1 || allocs[0].ClientStatus != "running") {
			err = errors.New("not running")
		}
		return err
	})
	if out, err := s.try("node", "status"); err == nil || !strings.Contains(out, "a client certificate: set -client-cert") {
		t.Errorf("without a certificate: %v %s", err, out)
	}
	s.until("the end of an agent with a certificate for people", func() error {
		if !strings.Contains(s.log("impostor"), "does not name client.global.nomad") {
			return errors.New(s.log("impostor"))
		}
		return nil
	})
	s.reloaded(client)
}

// reloaded hangs up on the server with new certificates while a query waits.
func (s *sealed) reloaded(client *api.Client) {
	s.t.Helper()
	var index uint64
	s.until("a running job", func() error {
		jobs, meta, err := client.Jobs().List(nil)
		if err != nil || len(jobs) != 1 || jobs[0].Status != "running" {
			return fmt.Errorf("%d jobs: %w", len(jobs), err)
		}
		index = meta.LastIndex
		return nil
	})
	answer := make(chan error, 1)
	go func() {
		jobs, _, err := client.Jobs().List(&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute})
		if err == nil && (len(jobs) != 1 || !jobs[0].Stop) {
			err = fmt.Errorf("%d jobs", len(jobs))
		}
		answer <- err
	}()
	for _, name := range []string{"global-server-nomad.pem", "global-server-nomad-key.pem"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.run("tls", "cert", "create", "-server")
	if err := s.process["server"].Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.until("the reload", func() error {
		if !strings.Contains(s.log("server"), "configuration reloaded") {
			return errors.New("not in the log")
		}
		return nil
	})
	select {
	case err := <-answer:
		s.t.Fatalf("the reload ended the waiting query: %v", err)
	default:
	}
	s.run("job", "stop", "-detach", "-client-cert", "global-cli-nomad.pem", "-client-key", "global-cli-nomad-key.pem", "calm")
	if err := <-answer; err != nil {
		s.t.Errorf("the waiting query: %v", err)
	}
}
