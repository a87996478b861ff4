package fingerprint_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/fingerprint"
)

func run(t *testing.T, c fingerprint.Config) *api.Node {
	t.Helper()
	n := &api.Node{}
	if err := fingerprint.Run(t.Context(), c, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRunDescribesThisHost(t *testing.T) {
	n := run(t, fingerprint.Config{DataDir: t.TempDir(), Version: "1.2.3", Revision: "abc"})
	host, _ := os.Hostname()
	for name, want := range map[string]string{
		"cpu.arch": runtime.GOARCH, "kernel.name": "linux", "unique.hostname": host,
		"nomad.version": "2.0.0", "open_nomad.version": "1.2.3", "nomad.revision": "abc", "nomad.service_discovery": "true",
	} {
		if n.Attributes[name] != want {
			t.Errorf("%s = %q, want %q", name, n.Attributes[name], want)
		}
	}
	for _, name := range []string{
		"kernel.version", "kernel.arch", "os.name", "cpu.numcores", "cpu.frequency", "cpu.totalcompute",
		"cpu.usablecompute", "memory.totalbytes", "unique.storage.volume", "unique.storage.bytestotal", "unique.storage.bytesfree",
		"unique.network.ip-address", "os.signals", "unique.cgroup.mountpoint",
	} {
		if n.Attributes[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	r := n.NodeResources
	if r.Cpu.CpuShares <= 0 || int(r.Cpu.TotalCpuCores) != len(r.Cpu.ReservableCpuCores) || r.Memory.MemoryMB <= 0 || r.Disk.DiskMB <= 0 ||
		r.MinDynamicPort != 20000 || r.MaxDynamicPort != 32000 {
		t.Errorf("resources %+v", r)
	}
	if n.Attributes["cpu.totalcompute"] != strconv.FormatInt(r.Cpu.CpuShares, 10) {
		t.Errorf("total compute %s, shares %d", n.Attributes["cpu.totalcompute"], r.Cpu.CpuShares)
	}
	if n.BootID == "" || n.Name != host {
		t.Errorf("boot id %q, name %q", n.BootID, n.Name)
	}
	if !strings.Contains(n.Attributes["os.signals"], "SIGHUP,") {
		t.Errorf("signals %q", n.Attributes["os.signals"])
	}
}

func TestConfigOverridesTheHost(t *testing.T) {
	n := run(t, fingerprint.Config{
		NetworkInterface: "lo", NetworkSpeed: 77, CPUTotalCompute: 20000, MemoryTotalMB: 512, DiskTotalMB: 1024,
		MinDynamicPort: 1000, MaxDynamicPort: 2000, Reserved: api.NodeReservedResources{Cpu: api.NodeReservedCpuResources{CpuShares: 500}},
	})
	r := n.NodeResources
	if r.Cpu.CpuShares != 20000 || r.Memory.MemoryMB != 512 || r.Disk.DiskMB != 1024 || r.MinDynamicPort != 1000 || r.MaxDynamicPort != 2000 {
		t.Errorf("resources %+v", r)
	}
	if n.Attributes["cpu.usablecompute"] != "19500" || n.ReservedResources.Cpu.CpuShares != 500 {
		t.Errorf("usable %s, reserved %+v", n.Attributes["cpu.usablecompute"], n.ReservedResources)
	}
	if len(r.Networks) == 0 || r.Networks[0].Device != "lo" || r.Networks[0].IP != "127.0.0.1" || r.Networks[0].CIDR != "127.0.0.1/32" ||
		r.Networks[0].MBits != 77 || r.Networks[0].Mode != "host" || n.Attributes["unique.network.ip-address"] != "127.0.0.1" {
		t.Errorf("networks %+v", r.Networks)
	}
}

func TestFailingProbesStopNoOther(t *testing.T) {
	n := run(t, fingerprint.Config{NetworkInterface: "no-such-if", DataDir: "/no/such/dir"})
	if len(n.NodeResources.Networks) != 0 || n.NodeResources.Disk.DiskMB != 0 {
		t.Errorf("resources %+v", n.NodeResources)
	}
	if n.Attributes["unique.hostname"] == "" || n.BootID == "" {
		t.Error("probes after the failing ones did not run")
	}
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fingerprint.Run(ctx, fingerprint.Config{}, &api.Node{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestChosenInterfaceIsUp(t *testing.T) {
	n := run(t, fingerprint.Config{})
	if len(n.NodeResources.Networks) == 0 {
		t.Fatal("no network")
	}
	iface, err := net.InterfaceByName(n.NodeResources.Networks[0].Device)
	if err != nil || iface.Flags&net.FlagUp == 0 {
		t.Errorf("%+v %v", iface, err)
	}
}
