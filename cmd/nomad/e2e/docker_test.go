package e2e

import (
	"errors"
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
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
)

// withEngine is an agent that runs containers on an engine of its own.
func withEngine(t *testing.T) (*kit.Agent, *enginetest.Engine) {
	t.Helper()
	a := kit.Prepare(t)
	return a, engineOf(t, a)
}

// engineOf starts an engine, and the agent that uses it.
func engineOf(t *testing.T, a *kit.Agent) *enginetest.Engine {
	t.Helper()
	e, err := enginetest.Start(a.Dir + "/engine")
	if errors.Is(err, enginetest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := os.OpenFile(a.Dir+"/agent.hcl", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	_, err = fmt.Fprintf(config, `
plugin "docker" {
  config {
    endpoint   = %q
    allow_caps = ["all"]
    volumes {
      enabled = true
    }
  }
}
`, e.Host)
	if err != nil {
		t.Fatal(err)
	}
	a.Launch()
	return e
}

// containerJob runs the program of the engine's image as a service.
func containerJob(id string, args ...string) *api.Job {
	j := kit.ShellJob(id, "")
	task := j.TaskGroups[0].Tasks[0]
	task.Driver, task.Resources.MemoryMB = "docker", ptr(64)
	task.Config = map[string]any{"image": enginetest.Image, "network_mode": "none", "args": args}
	return j
}

func readBack(t *testing.T, a *kit.Agent, volume, want string) {
	t.Helper()
	a.Register(kit.WithVolume(kit.ShellJob("reader", "cat data/file; exec sleep 1000"), volume))
	alloc := a.Running("reader", 1)
	a.Until(10*time.Second, "the reader's log", func() error {
		out, _ := a.Run("alloc", "logs", alloc.ID)
		if !strings.Contains(out, want) {
			return fmt.Errorf("log is %q", out)
		}
		return nil
	})
}

func TestContainerWritesAVolumeAndAnotherDriverReadsIt(t *testing.T) {
	a, _ := withEngine(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(containerJob("writer", "write", "/data/file", "from a container\n", "stay"), "v1"))
	a.Running("writer", 1)
	a.Until(10*time.Second, "the file on the volume", func() error {
		found, _ := filepath.Glob(a.Dir + "/hp/data/*/file")
		if len(found) != 1 {
			return fmt.Errorf("files are %q", found)
		}
		return nil
	})
	a.Kill() // the container runs on, and is taken up
	a.Launch()
	a.Running("writer", 1)
	a.Stop("writer", false)
	t.Logf("claim free after %v", a.Free("v1"))
	readBack(t, a, "v1", "from a container")
}

func TestPluginInAContainerServesVolumes(t *testing.T) {
	a, _ := withEngine(t)
	job := a.PluginJob("hp")
	task := job.TaskGroups[0].Tasks[0]
	state := a.Dir + "/hp"
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	task.Driver, task.Resources.MemoryMB = "docker", ptr(128)
	task.Config = map[string]any{
		"image": enginetest.Image, "network_mode": "none", "cap_add": []string{"sys_admin"}, "security_opt": []string{"apparmor=unconfined", "seccomp=unconfined"},
		"entrypoint": []string{"/nomad"}, "args": []string{"csi-hostpath", "-state-dir", "/state", "-node-id", "node-1"},
		"mount": []map[string]any{
			{"type": "bind", "source": a.Binary, "target": "/nomad", "readonly": true}, {"type": "bind", "source": state, "target": "/state"},
		},
	}
	task.CSIPluginConfig.MountDir = "/csi"
	a.Register(job)
	a.PluginHealthy("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(containerJob("writer", "write", "/data/file", "through a container\n", "stay"), "v1"))
	a.Running("writer", 1)
	a.Until(10*time.Second, "the file on the volume", func() error {
		if found, _ := filepath.Glob(state + "/data/*/file"); len(found) != 1 {
			return fmt.Errorf("files are %q", found)
		}
		return nil
	})
	a.Stop("writer", false)
	t.Logf("claim free after %v", a.Free("v1"))
	readBack(t, a, "v1", "through a container")
}

func TestContainerServesAPortOfItsGroup(t *testing.T) {
	a, e := withEngine(t)
	if _, err := e.Client.NetworkCreate(t.Context(), "shop", client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		t.Fatal(err)
	}
	job := containerJob("web", "serve", "80")
	group := job.TaskGroups[0]
	group.Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http", To: 80}}}}
	config := group.Tasks[0].Config
	config["network_mode"], config["ports"] = "shop", []string{"http"}
	a.Register(job)
	stub := a.Running("web", 1)
	alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
	if err != nil || len(alloc.AllocatedResources.Shared.Ports) != 1 {
		t.Fatalf("ports %+v, %v", alloc.AllocatedResources.Shared.Ports, err)
	}
	port := alloc.AllocatedResources.Shared.Ports[0]
	address := fmt.Sprintf("http://%s:%d/", port.HostIP, port.Value)
	a.Until(10*time.Second, "an answer from "+address, func() error {
		reply, err := http.Get(address)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		if text, _ := io.ReadAll(reply.Body); string(text) != "hello" {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
	out, _ := a.Run("alloc", "status", "-stats", stub.ID)
	if !strings.Contains(out, "MiB") {
		t.Errorf("status is %s", out)
	}
}

func TestEventsOfAContainerSayWhatIsWrong(t *testing.T) {
	a, _ := withEngine(t)
	job := containerJob("none", "sleep")
	job.TaskGroups[0].Tasks[0].Config["image"] = "127.0.0.1:1/none:v1"
	job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Attempts: ptr(0), Unlimited: ptr(false)}
	a.Register(job)
	a.Until(20*time.Second, "the allocation to fail", func() error {
		if len(a.Allocs("none", "failed")) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	out, _ := a.Run("alloc", "status", a.Allocs("none", "failed")[0].ID)
	for _, part := range []string{"Driver  ", "Downloading image", "Driver Failure", "127.0.0.1:1/none:v1", "connection refused"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in %s", part, out)
		}
	}
}

// TestContainersOfABridge: containers and a task of exec share the network of their allocation, also after the agent and the engine
// were killed, and nothing is left.
func TestContainersOfABridge(t *testing.T) {
	a := kit.Prepare(t)
	bridge := withBridge(t, a, "172.26.97.0/24")
	e := engineOf(t, a)
	job := containerJob("net", "serve", "8080")
	g := job.TaskGroups[0]
	delete(g.Tasks[0].Config, "network_mode")
	g.Tasks = append(g.Tasks, &api.Task{
		Name: "other", Driver: "docker", Resources: g.Tasks[0].Resources, Config: map[string]any{"image": enginetest.Image, "args": []string{"serve", "8081"}},
	}, &api.Task{
		Name: "local", Driver: "exec", Resources: g.Tasks[0].Resources, Config: map[string]any{"command": "/bin/sleep", "args": []string{"1000"}},
	})
	g.Networks = []*api.NetworkResource{{Mode: "bridge", Hostname: "box", DynamicPorts: []api.Port{{Label: "http", To: 8080}, {Label: "other", To: 8081}}}}
	a.Register(job)
	stub := a.Running("net", 1)
	alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	replies := func() {
		t.Helper()
		for _, port := range alloc.AllocatedResources.Shared.Ports {
			address := fmt.Sprintf("http://%s:%d", port.HostIP, port.Value)
			a.Until(20*time.Second, address+" to reply", func() error {
				r, err := (&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get(address)
				if err != nil {
					return err
				}
				return r.Body.Close()
			})
			out, code := a.Run("alloc", "exec", "-task", "local", stub.ID, "/usr/bin/python3", "-c", fmt.Sprintf("import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:%d').read())", port.To))
			if code != 0 || !strings.Contains(out, "hello") {
				t.Errorf("task of exec to %d: %s", port.To, out)
			}
		}
	}
	replies()
	a.Kill()
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	a.Launch()
	replies()
	if now := a.Running("net", 1); now.ID != stub.ID || now.TaskStates["other"].Restarts != 0 {
		t.Errorf("the allocation was replaced or restarted: %+v", now)
	}
	if out, code := a.Run("alloc", "restart", stub.ID, "other"); code != 0 {
		t.Error(out)
	}
	replies()
	a.Stop("net", true)
	a.Until(30*time.Second, "nothing to be left", func() error {
		links, err := os.ReadDir("/sys/class/net/" + bridge + "/brif")
		if err != nil || len(links) > 0 {
			return fmt.Errorf("links %v, %w", links, err)
		}
		list, err := e.Client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
		files, _ := filepath.Glob("/run/nomad/networks/*/*/" + alloc.ID)
		if err != nil || len(list.Items)+len(files) > 0 {
			return fmt.Errorf("containers %v, files %v, %w", list.Items, files, err)
		}
		return nil
	})
}

// A container and a task of exec share a network of CNI plugins.
func TestContainersOfACNINetwork(t *testing.T) {
	plugins := "/usr/lib/cni"
	for _, name := range []string{"bridge", "host-local"} {
		if _, err := os.Stat(filepath.Join(plugins, name)); err != nil {
			t.Skip(err)
		}
	}
	a := kit.Prepare(t)
	bridge := fmt.Sprintf("e2e%d", kit.FreePort(t))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() })
	networks, addresses := filepath.Join(a.Dir, "cni"), filepath.Join(a.Dir, "addresses")
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge", "bridge": %q, "isGateway": true,
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "172.26.98.0/24"}]]}}]}`, bridge, addresses)
	if err := errors.Join(os.Mkdir(networks, 0o755), os.WriteFile(filepath.Join(networks, "web.conflist"), []byte(conf), 0o600)); err != nil {
		t.Fatal(err)
	}
	config, err := os.OpenFile(filepath.Join(a.Dir, "agent.hcl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	if _, err := fmt.Fprintf(config, "\nclient {\n  cni_path = %q\n  cni_config_dir = %q\n}\n", plugins, networks); err != nil {
		t.Fatal(err)
	}
	e := engineOf(t, a)
	job := containerJob("net", "serve", "8080")
	g := job.TaskGroups[0]
	delete(g.Tasks[0].Config, "network_mode")
	g.Tasks = append(g.Tasks, &api.Task{
		Name: "local", Driver: "exec", Resources: g.Tasks[0].Resources, Config: map[string]any{"command": "/bin/sleep", "args": []string{"1000"}},
	})
	g.Networks = []*api.NetworkResource{{Mode: "cni/web"}}
	a.Register(job)
	stub := a.Running("net", 1)
	alloc, _, err := a.API.Allocations().Info(stub.ID, nil)
	if err != nil || alloc.NetworkStatus == nil {
		t.Fatalf("no network status: %v", err)
	}
	address := "http://" + alloc.NetworkStatus.Address + ":8080"
	a.Until(20*time.Second, address+" to reply", func() error {
		r, err := (&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get(address)
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
	out, code := a.Run("alloc", "exec", "-task", "local", stub.ID, "/usr/bin/python3", "-c", "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8080').read())")
	if code != 0 || !strings.Contains(out, "hello") {
		t.Errorf("task of exec: %s", out)
	}
	a.Stop("net", true)
	a.Until(30*time.Second, "nothing to be left", func() error {
		links, err := os.ReadDir("/sys/class/net/" + bridge + "/brif")
		if err != nil || len(links) > 0 {
			return fmt.Errorf("links %v, %w", links, err)
		}
		list, err := e.Client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
		leases, _ := filepath.Glob(addresses + "/web/172.*")
		if err != nil || len(list.Items)+len(leases) > 0 {
			return fmt.Errorf("containers %v, addresses %v, %w", list.Items, leases, err)
		}
		return nil
	})
}
