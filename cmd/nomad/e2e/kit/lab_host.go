package kit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/nomad/api"
)

// Host is a machine of a lab. The embedded agent runs in the host's network; its methods speak to
// the agent that runs here.
type Host struct {
	*Agent
	Name string
	IP   string
	// More is what its configuration has in addition.
	More string
	// TLS is how the tests reach an agent that has TLS.
	TLS *api.TLSConfig

	lab  *Lab
	port string
}

// Quick are the servers' times by which a lost node is noticed within seconds.
const Quick = `
  heartbeat_grace = "1s"
  min_heartbeat_ttl = "1s"
  failover_heartbeat_ttl = "5s"
`

// Serve starts a server, one of the given hosts, with more lines for the server block.
func (h *Host) Serve(all []*Host, more string) {
	h.tb.Helper()
	var join []string
	for _, other := range all {
		join = append(join, strconv.Quote(other.IP))
	}
	retry := ""
	if len(all) > 1 {
		retry = fmt.Sprintf("server_join {\n retry_join = [%s]\n retry_interval = \"1s\"\n }", strings.Join(join, ", "))
	}
	h.Start(fmt.Sprintf("server {\n enabled = true\n bootstrap_expect = %d\n%s\n%s\n}", len(all), more, retry))
}

// Work starts a client of the servers, with more lines for the client block.
func (h *Host) Work(servers []*Host, more string) {
	h.tb.Helper()
	var list []string
	for _, s := range servers {
		list = append(list, strconv.Quote(s.IP+":4647"))
	}
	h.Start(fmt.Sprintf(`client {
  enabled = true
  gc_interval = "1h"
  servers = [%s]
%s
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}%s`, strings.Join(list, ", "), more, lean))
}

// Start writes the configuration and starts the agent; see [Host.Restart].
func (h *Host) Start(config string) {
	h.tb.Helper()
	h.acl = h.lab.ACL
	body := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = %q\nlog_level = \"DEBUG\"\n%s\n%s\n%s",
		h.Name, filepath.Join(h.Dir, "data"), h.IP, config, h.More, access(h.acl))
	if err := os.WriteFile(h.config, []byte(body), 0o600); err != nil {
		h.tb.Fatal(err)
	}
	var err error
	scheme := "http"
	if h.TLS != nil {
		scheme = "https"
	}
	if h.API, err = api.NewClient(&api.Config{Address: fmt.Sprintf("%s://%s:4646", scheme, h.IP), SecretID: token(h.acl), TLSConfig: h.TLS}); err != nil {
		h.tb.Fatal(err)
	}
	h.Restart()
}

// Restart starts the agent again; who needs it ready must wait for that.
func (h *Host) Restart() {
	h.tb.Helper()
	if h.Alive() {
		h.Kill9()
	}
	// Only the network is the host's own: mounts must be those of the machine.
	h.spawn("nsenter", "--net=/run/netns/"+h.lab.space(h.Name), "--", h.Binary, "agent", "-config", h.config)
}

// Alive reports whether the agent runs.
func (h *Host) Alive() bool {
	if h.process == nil {
		return false
	}
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

// Kill9 kills the agent; what it started goes on.
func (h *Host) Kill9() {
	if h.Alive() {
		h.Kill()
	}
}

// Cut takes the host off the network; connections stall.
func (h *Host) Cut() {
	h.tb.Helper()
	h.lab.ip("link", "set", h.port, "nomaster")
}

// Heal undoes Cut.
func (h *Host) Heal() {
	h.tb.Helper()
	h.lab.ip("link", "set", h.port, "master", h.lab.bridge())
}

// Destroy ends all that runs on the host, as the loss of the machine does. Its mounts stay in the
// kernel until the test ends.
func (h *Host) Destroy() {
	h.tb.Helper()
	h.Cut()
	h.Kill9()
	h.endProcesses()
}

// Freeze stops every process of the host, agent and tasks, where they are; Thaw lets them go on.
func (h *Host) Freeze() { h.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (h *Host) Thaw() { h.signal(syscall.SIGCONT) }

func (h *Host) signal(s syscall.Signal) {
	pids := h.Processes()
	if h.Alive() {
		pids = append(pids, h.PID())
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
}

// Shells are the processes of jobs made by [ShellJob] that run on the host.
func (h *Host) Shells() []int {
	var pids []int
	for _, pid := range h.Processes() {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.HasPrefix(cmdline, []byte("/bin/sh\x00-c\x00")) {
			pids = append(pids, pid)
		}
	}
	// A shell that is about to begin a program is two for a moment.
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return slices.Contains(pids, parent(pid)) })
}

// parent is the process that began another one, 0 when that has ended.
func parent(pid int) (ppid int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var state string
	_, _ = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &ppid)
	return ppid
}

// Commands are the processes of the host whose command line begins with the program.
func (h *Host) Commands(program string) []int {
	var pids []int
	for _, pid := range h.Processes() {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.HasPrefix(cmdline, []byte(program+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// VolumeMounts are the mounts of CSI volumes on the host: where they are staged and published.
func (h *Host) VolumeMounts() []string {
	var found []string
	for _, m := range h.Mounts() {
		if strings.Contains(m, "/client/csi/monolith/") || strings.Contains(m, "/client/csi/node/") {
			found = append(found, m)
		}
	}
	return found
}

// NodeID asks the servers for the id of the host's node.
func (h *Host) NodeID(server *Host) string {
	h.tb.Helper()
	nodes, _, err := server.API.Nodes().List(nil)
	if err != nil {
		h.tb.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == h.Name {
			return n.ID
		}
	}
	h.tb.Fatalf("no node is called %s", h.Name)
	return ""
}

// NodeStatus is the status of the host's node at the server.
func (h *Host) NodeStatus(server *Host) string {
	nodes, _, err := server.API.Nodes().List(nil)
	if err != nil {
		return err.Error()
	}
	for _, n := range nodes {
		if n.Name == h.Name {
			return n.Status
		}
	}
	return "unknown"
}
