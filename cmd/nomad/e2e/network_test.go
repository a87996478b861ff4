package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// withBridge is an agent with a bridge of its own, which is removed when the test ends.
func withBridge(t *testing.T, a *kit.Agent, subnet string) (bridge string) {
	t.Helper()
	for _, program := range []string{"nft", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	bridge = fmt.Sprintf("e2e%d", kit.FreePort(t))
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", bridge).Run()
		_ = exec.Command("nft", "delete", "table", "inet", "nomad_"+bridge).Run()
		for _, flag := range []string{"-i", "-o"} {
			_ = exec.Command("iptables", "-w", "5", "-D", "FORWARD", flag, bridge, "-j", "ACCEPT").Run()
		}
	})
	config, err := os.OpenFile(filepath.Join(a.Dir, "agent.hcl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	if _, err := fmt.Fprintf(config, "\nclient {\n  bridge_network_name = %q\n  bridge_network_subnet = %q\n}\n", bridge, subnet); err != nil {
		t.Fatal(err)
	}
	return bridge
}

// TestGroupNetwork: tasks of exec and raw_exec share the network of their allocation, which is reached by its ports on the node,
// survives kill -9 of the agent and a removed bridge, and ends with the job.
func TestGroupNetwork(t *testing.T) {
	t.Parallel()
	a := kit.Prepare(t)
	bridge := withBridge(t, a, "172.26.96.0/24")
	a.Launch()
	job := kit.ShellJob("net", `exec python3 -m http.server 8080`)
	g := job.TaskGroups[0]
	*g.Tasks[0].Resources.MemoryMB = 100
	name := "exec"
	g.Tasks = append(g.Tasks, &api.Task{
		Name: name, Driver: "exec", Resources: g.Tasks[0].Resources,
		Config: map[string]any{"command": "/bin/sh", "args": []string{"-c", "hostname; cat /proc/net/dev /etc/hosts /etc/resolv.conf; sleep 1000"}},
	})
	g.Networks = []*api.NetworkResource{{
		Mode: "bridge", Hostname: "box", DNS: &api.DNSConfig{Servers: []string{"192.0.2.7"}},
		DynamicPorts: []api.Port{{Label: "http", To: 8080}},
	}}
	g.Services = []*api.Service{{
		Name: "net", Provider: "nomad", PortLabel: "http", AddressMode: "alloc",
		Checks: []api.ServiceCheck{{Type: "http", Path: "/", Interval: time.Second, Timeout: time.Second, AddressMode: "alloc"}},
	}}
	a.Register(job)
	stub := a.Running("net", 1)
	alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	port := alloc.AllocatedResources.Shared.Ports[0]
	network := alloc.NetworkStatus
	if network == nil || !strings.HasPrefix(network.Address, "172.26.96.") || network.InterfaceName != "eth0" {
		t.Fatalf("network %+v", network)
	}
	replies := func(address string) {
		t.Helper()
		a.Until(20*time.Second, address+" to reply", func() error {
			r, err := (&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r.Body)
			return err
		})
	}
	replies(fmt.Sprintf("%s:%d", port.HostIP, port.Value))
	replies(network.Address + ":8080")
	a.Until(20*time.Second, "the instance and its check", func() error {
		all, _, err := a.API.Services().Get("net", nil)
		if err != nil || len(all) != 1 || all[0].Address != network.Address || all[0].Port != 8080 {
			return fmt.Errorf("instances %v, %w", all, err)
		}
		checks, err := a.API.Allocations().Checks(stub.ID, nil)
		for _, c := range checks {
			if c.Status != "success" {
				return fmt.Errorf("check %+v", c)
			}
		}
		return err
	})
	a.Until(20*time.Second, "the output of the task of exec", func() error {
		out, _ := a.Run("alloc", "logs", "-task", name, stub.ID)
		for _, want := range []string{"box\n", "eth0:", network.Address + " box", "nameserver 192.0.2.7"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no %q in %q", want, out)
			}
		}
		return nil
	})
	for _, task := range []string{"main", name} {
		if out, code := a.Run("alloc", "exec", "-task", task, stub.ID, "cat", "/proc/net/dev"); code != 0 || !strings.Contains(out, "eth0:") || strings.Count(out, ":") != 2 {
			t.Errorf("a command in task %s sees other interfaces: %s", task, out)
		}
	}

	a.Kill()
	if out, err := exec.Command("ip", "link", "del", bridge).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	a.Launch()
	replies(fmt.Sprintf("%s:%d", port.HostIP, port.Value))
	if now := a.Running("net", 1); now.ID != stub.ID || now.TaskStates["main"].Restarts != 0 {
		t.Errorf("the allocation was replaced or restarted: %+v", now)
	}

	a.Stop("net", true)
	a.Until(30*time.Second, "nothing to be left", func() error {
		links, err := os.ReadDir("/sys/class/net/" + bridge + "/brif")
		if err != nil || len(links) > 0 {
			return fmt.Errorf("links %v, %w", links, err)
		}
		files, _ := filepath.Glob("/run/nomad/networks/*/*/" + alloc.ID)
		leases, _ := filepath.Glob("/run/nomad/networks/leases/" + bridge + "/*")
		out, err := exec.Command("nft", "list", "table", "inet", "nomad_"+bridge).Output()
		if err != nil || len(files)+len(leases) > 0 || strings.Contains(string(out), network.Address) {
			return fmt.Errorf("%v, %v, %v, %s", err, files, leases, out)
		}
		return nil
	})
}
