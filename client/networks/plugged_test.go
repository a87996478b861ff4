package networks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/networks/cni"
)

// plugins is where Debian's package containernetworking-plugins installs its programs.
const plugins = "/usr/lib/cni"

// cniNode makes the service of a node with directories for plugins and configurations of the test; the plugins of the machine
// have precedence. host-local records its addresses in a directory of the test.
func cniNode(t *testing.T) (s *Service, dir string) {
	t.Helper()
	peer(t)
	if _, err := exec.LookPath(plugins + "/bridge"); err != nil {
		t.Skip("needs the CNI plugins of package containernetworking-plugins")
	}
	dir = t.TempDir()
	for _, d := range []string{"bin", "conf"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	s = New(Config{
		Dir: filepath.Join(dir, "run"), NodeID: "cni", Wildcard: true, Log: hclog.NewNullLogger(),
		CNI: cni.Config{Path: []string{filepath.Join(dir, "bin"), plugins}, ConfigDir: filepath.Join(dir, "conf"), RecordDir: filepath.Join(dir, "records"), Wait: 20 * time.Second},
	})
	t.Cleanup(func() {
		s.Restored(context.Background(), func(string) bool { return false })
		if l, err := netlink.LinkByName("cni-test"); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	return s, dir
}

const (
	bridgePlugin  = `{"type": "bridge", "bridge": "cni-test", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "dataDir": "DIR/leases", "ranges": [[{"subnet": "10.98.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}`
	portmapPlugin = `{"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}`
)

// conflist writes the configuration of the network web.
func conflist(t *testing.T, dir string, list ...string) {
	t.Helper()
	text := `{"cniVersion": "1.0.0", "name": "web", "plugins": [` + strings.Join(list, ", ") + `]}`
	must(t, os.WriteFile(filepath.Join(dir, "conf", "web.conflist"), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
}

// script writes a plugin that records its calls in the file calls and then runs the commands.
func script(t *testing.T, dir, commands string) {
	t.Helper()
	text := "#!/bin/sh\n[ $CNI_COMMAND = VERSION ] && { echo '{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"0.4.0\", \"1.0.0\"]}'; exit; }\n" +
		"echo $CNI_COMMAND $CNI_ARGS >>" + dir + "/calls\n" + commands + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "bin", "fake"), []byte(text), 0o755)) //nolint:gosec // it is a program
}

func calls(t *testing.T, dir string) string {
	t.Helper()
	b, _ := os.ReadFile(filepath.Join(dir, "calls"))
	return string(b)
}

// remains lists what is left of CNI networks.
func remains(t *testing.T, s *Service, dir string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"records/*.json", "records/results/*", "leases/web/10.*", "run/netns/*/*", "run/files/*/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		found = append(found, files...)
	}
	rules, err := exec.Command("iptables", "-t", "nat", "-S").Output()
	must(t, err)
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, "CNI-DN-") || strings.Contains(line, "10.98.0.") {
			found = append(found, line)
		}
	}
	return found
}

// forget is the node that does not know any allocation.
func forget(string) bool { return false }

func TestCNINetworkConnectsAndForwards(t *testing.T) {
	s, dir := cniNode(t)
	conflist(t, dir, bridgePlugin, portmapPlugin)
	a := alloc("cccccccc-web", "cni/web", mapping(hostIP, 18080, 80))
	a.Job.TaskGroups[0].Networks[0].Hostname = "box"
	status := up(t, s, a)
	if status.InterfaceName != "eth0" || !strings.HasPrefix(status.Address, "10.98.0.") {
		t.Fatalf("status %+v", status)
	}
	greet(t, s.Path(a), 80, "hello")
	if got, err := ask(peer(t), hostIP+":18080"); got != "hello" {
		t.Fatalf("another host gets %q by the port of the node: %v", got, err)
	}
	if b, err := os.ReadFile(s.Files(a)[0].Path); err != nil || !strings.Contains(string(b), status.Address+" box\n") {
		t.Errorf("hosts: %s %v", b, err)
	}
	next := again(s)
	next.Restored(t.Context(), func(string) bool { return true })
	if kept := up(t, next, a); kept.Address != status.Address {
		t.Errorf("the next agent process reports %s, not %s", kept.Address, status.Address)
	}
	if got, err := ask(peer(t), hostIP+":18080"); got != "hello" {
		t.Errorf("after a restart of the agent: %q %v", got, err)
	}
	must(t, os.Remove(filepath.Join(dir, "conf", "web.conflist"))) // the recorded configuration serves
	must(t, next.Down(t.Context(), a))
	if all := remains(t, s, dir); len(all) > 0 {
		t.Error("left:", all)
	}
	must(t, next.Down(t.Context(), a)) // again
}

// A plugin that hangs, fails or prints nonsense fails the allocation, and the deletion removes what others made before it.
func TestCNIPluginThatFailsLeavesNothing(t *testing.T) {
	s, dir := cniNode(t)
	s.conf.CNI.Wait = 3 * time.Second
	s = again(s)
	conflist(t, dir, bridgePlugin, `{"type": "fake"}`)
	for _, c := range []struct{ name, commands, want string }{
		{"fails", `[ $CNI_COMMAND = DEL ] && exit 0; echo '{"code": 11, "msg": "no route to the moon"}'; exit 1`, "no route to the moon"},
		{"fails without reason", `[ $CNI_COMMAND = DEL ] && exit 0; echo boom >&2; exit 3`, "CNI plugin fake: boom"},
		{"prints nonsense", `[ $CNI_COMMAND = DEL ] && exit 0; echo hello`, "CNI network"},
		{"prints null", `[ $CNI_COMMAND = DEL ] && exit 0; echo '{"ips": [null, {"address": 7}]}'`, "CNI network"},
		{"prints without end", `[ $CNI_COMMAND = DEL ] && exit 0; head -c 5000000 /dev/zero`, "more than 1048576 bytes"},
		{"hangs", `[ $CNI_COMMAND = DEL ] && exit 0; sleep 1000 & sleep 1000`, "CNI plugin fake does not end in time"},
	} {
		script(t, dir, c.commands)
		_ = os.Remove(filepath.Join(dir, "calls"))
		a := alloc("cccccccc-bad", "cni/web")
		if _, err := s.Up(t.Context(), a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := calls(t, dir); !strings.HasPrefix(got, "ADD ") || strings.Count(got, "DEL ") != 1 {
			t.Errorf("%s: calls %q", c.name, got)
		}
		must(t, s.Down(t.Context(), a))
		if all := remains(t, s, dir); len(all) > 0 {
			t.Errorf("%s: left: %v", c.name, all)
		}
	}
}

// A plugin that cannot delete does not hold up the end of the allocation; the next agent process deletes.
func TestCNIDeletionThatFailsIsLeftToTheNextAgent(t *testing.T) {
	s, dir := cniNode(t)
	conflist(t, dir, `{"type": "fake"}`)
	script(t, dir, `[ $CNI_COMMAND = DEL ] && exit 1; echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.98.1.7/24"}]}'`)
	a := alloc("cccccccc-del", "cni/web")
	a.Job.TaskGroups[0].Networks[0].CNI = &api.CNIConfig{Args: map[string]string{"color": "red"}}
	if status := up(t, s, a); status.Address != "10.98.1.7" {
		t.Errorf("status %+v", status)
	}
	if got := calls(t, dir); !strings.Contains(got, "color=red") || !strings.Contains(got, "NOMAD_ALLOC_ID="+a.ID) || !strings.Contains(got, "IgnoreUnknown=true") {
		t.Errorf("arguments: %q", got)
	}
	tries := 1
	for ; s.Down(t.Context(), a) != nil; tries++ {
		if tries > 10 {
			t.Fatal("the end of the allocation waits for the plugin")
		}
	}
	if tries < 2 {
		t.Error("no second try")
	}
	script(t, dir, "")
	again(s).Restored(t.Context(), forget)
	if all := remains(t, s, dir); len(all) > 0 {
		t.Error("left:", all)
	}
}

// What an agent made that was killed during ADD is removed by the next one.
func TestCNINetworkOfKilledAgentIsRemoved(t *testing.T) {
	s, dir := cniNode(t)
	conflist(t, dir, bridgePlugin, portmapPlugin, `{"type": "fake"}`)
	script(t, dir, `[ $CNI_COMMAND = DEL ] && exit 1; echo nonsense`) // so that ADD and its DEL leave all
	a := alloc("cccccccc-kill", "cni/web", mapping(hostIP, 18081, 80))
	if _, err := s.Up(t.Context(), a); err == nil {
		t.Fatal("nonsense is a network")
	}
	if all := remains(t, s, dir); len(all) < 3 {
		t.Fatalf("only %v is left by the first", all)
	}
	script(t, dir, "")
	must(t, os.Remove(filepath.Join(dir, "conf", "web.conflist")))
	again(s).Restored(t.Context(), forget)
	if all := remains(t, s, dir); len(all) > 0 {
		t.Error("left:", all)
	}
}

// After a reboot the namespace is lost, and the addresses that plugins recorded on disk are in use.
func TestCNINetworkAfterReboot(t *testing.T) {
	s, dir := cniNode(t)
	conflist(t, dir, bridgePlugin)
	a := alloc("cccccccc-boot", "cni/web")
	up(t, s, a)
	must(t, unix.Unmount(s.Path(a), unix.MNT_DETACH))
	must(t, os.RemoveAll(filepath.Join(dir, "run")))
	for _, option := range []string{"-F", "-X"} {
		must(t, exec.Command("iptables", "-t", "nat", option).Run())
	}
	next := again(s)
	next.Restored(t.Context(), func(string) bool { return true })
	up(t, next, a)
	if leases, _ := filepath.Glob(dir + "/leases/web/10.*"); len(leases) != 1 {
		t.Errorf("addresses in use: %v", leases)
	}
	must(t, next.Down(t.Context(), a))
	if all := remains(t, s, dir); len(all) > 0 {
		t.Error("left:", all)
	}
}

func TestCNIFingerprint(t *testing.T) {
	s, dir := cniNode(t)
	conflist(t, dir, bridgePlugin)
	script(t, dir, "exit 1")
	for name, text := range map[string]string{"broken.conflist": "{", "same.conf": `{"cniVersion": "0.4.0", "name": "web", "type": "ptp"}`, "zwei.conf": `{"cniVersion": "0.4.0", "name": "zwei", "type": "ptp"}`} {
		must(t, os.WriteFile(filepath.Join(dir, "conf", name), []byte(text), 0o600))
	}
	n := &api.Node{Attributes: map[string]string{}, NodeResources: &api.NodeResources{}}
	s.Fingerprint(n)
	modes := func() (all string) {
		for _, r := range n.NodeResources.Networks {
			all += r.Mode + " "
		}
		return all
	}
	s.CNIFingerprint(t.Context())(n)
	if got := modes(); got != "bridge cni/web cni/zwei " {
		t.Errorf("modes %q", got)
	}
	for k, want := range map[string]string{"config.zwei": "0.4.0", "version.fake": "1.0.0", "version.bridge": version} {
		if got := n.Attributes["plugins.cni."+k]; got != want {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "conf", "zwei.conf")))
	must(t, os.Remove(filepath.Join(dir, "bin", "fake")))
	s.CNIFingerprint(t.Context())(n)
	if got := modes() + fmt.Sprint(n.Attributes["plugins.cni.config.zwei"], n.Attributes["plugins.cni.version.fake"]); got != "bridge cni/web " {
		t.Errorf("after the removal: %q", got)
	}
	if _, err := s.Up(t.Context(), alloc("cccccccc-none", "cni/zwei")); err == nil || !strings.Contains(err.Error(), `CNI network "zwei" is not in client.cni_config_dir`) {
		t.Error("a network that does not exist:", err)
	}
}
