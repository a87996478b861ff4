package spec_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/network"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/spec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func build(t *testing.T, task *driver.Task, block map[string]any) (*spec.Spec, error) {
	t.Helper()
	task.Config["image"] = "i"
	c, err := config.ParseTask(task.Config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.ParsePlugin(block)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.New(spec.Input{Task: task, Config: c, Plugin: &p, Image: "sha256:1", Stage: t.TempDir() + "/stage"})
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

func TestLimitsOfProcessorAndMemory(t *testing.T) {
	for _, c := range []struct {
		keys                               map[string]any
		res                                driver.Resources
		memory, reserved, shares, quotaMin int64
		cpus                               string
	}{
		{map[string]any{}, driver.Resources{CPUShares: 1, MemoryMB: 10}, 10 << 20, 0, 2, 0, ""},
		{map[string]any{"memory_hard_limit": 30}, driver.Resources{CPUShares: 100, MemoryMB: 10, MemoryMaxMB: 20}, 30 << 20, 10 << 20, 100, 0, ""},
		{map[string]any{"cpu_hard_limit": true}, driver.Resources{CPUShares: 100, NodeCPUShares: 200, Cores: "1"}, 0, 0, 100, 50_000, "1"},
		{map[string]any{"cpuset_cpus": "0-1"}, driver.Resources{}, 0, 0, 0, 0, "0-1"},
	} {
		task := suite.NewTask(t, c.keys)
		task.Resources = c.res
		s, err := build(t, task, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := s.Options.HostConfig
		if h.Memory != c.memory || h.MemorySwap != c.memory || h.MemoryReservation != c.reserved || h.CPUShares != c.shares || h.CPUQuota < c.quotaMin || h.CpusetCpus != c.cpus {
			t.Errorf("%v: %+v", c, h.Resources)
		}
	}
	task := suite.NewTask(t, map[string]any{"memory_hard_limit": 5})
	task.Resources.MemoryMB = 10
	if _, err := build(t, task, nil); err == nil || !strings.Contains(err.Error(), "memory_hard_limit") {
		t.Errorf("a hard limit below the memory: %v", err)
	}
}

func TestPortsAreMapped(t *testing.T) {
	ports := []driver.Port{{Label: "http", HostIP: "192.0.2.1", Value: 20000, To: 80}, {Label: "same", HostIP: "192.0.2.1", Value: 20001}}
	for want, keys := range map[string]map[string]any{
		"80/tcp 20000 80/udp 20000 20001/tcp 20001 20001/udp 20001": {"ports": []any{"http", "same"}},
		"8080/tcp 20000 8080/udp 20000":                             {"port_map": map[string]any{"http": 8080}},
	} {
		task := suite.NewTask(t, keys)
		task.Ports = ports
		s, err := build(t, task, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"80/tcp", "80/udp", "8080/tcp", "8080/udp", "20001/tcp", "20001/udp"} {
			for _, b := range s.Options.HostConfig.PortBindings[network.MustParsePort(name)] {
				if b.HostIP != netip.MustParseAddr("192.0.2.1") {
					t.Errorf("%s is published on %v", name, b.HostIP)
				}
				got = append(got, name, b.HostPort)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestOptionsOfAVolumeThatCanNameAnyPathNeedPermission(t *testing.T) {
	options := map[string]any{"driver_config": map[string]any{"options": map[string]any{"type": "none", "o": "bind", "device": "/etc"}}}
	keys := map[string]any{"mount": []any{map[string]any{"target": "/v", "source": "name", "volume_options": options}}}
	if _, err := build(t, suite.NewTask(t, keys), nil); err == nil || !strings.Contains(err.Error(), "driver_config") {
		t.Errorf("without permission: %v", err)
	}
	if _, err := build(t, suite.NewTask(t, keys), map[string]any{"volumes": map[string]any{"enabled": true}}); err != nil {
		t.Error(err)
	}
}

func TestTheLabelOfAVolumeComesBeforeThatOfTheAgent(t *testing.T) {
	for label, want := range map[string]string{"": "/volume:/v:rw,z,rprivate", "Z": "/volume:/v:rw,Z,rprivate"} {
		task := suite.NewTask(t, map[string]any{})
		task.Mounts = []driver.Mount{{Source: "/volume", Destination: "/v", SELinuxLabel: label}}
		s, err := build(t, task, map[string]any{"volumes": map[string]any{"selinuxlabel": "z"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Options.HostConfig.Binds; !slices.Contains(got, want) {
			t.Errorf("label %q: binds %q, want %s among them", label, got, want)
		}
	}
}

func TestAMissingSourceIsMadeWherePermitted(t *testing.T) {
	source := filepath.Join(t.TempDir(), "a", "b")
	keys := map[string]any{"volumes": []any{source + ":/b"}}
	if _, err := build(t, suite.NewTask(t, keys), nil); err == nil || !strings.Contains(err.Error(), "outside of the allocation") {
		t.Errorf("without permission: %v", err)
	}
	if _, err := os.Stat(source); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made without permission: %v", err)
	}
	if _, err := build(t, suite.NewTask(t, keys), map[string]any{"volumes": map[string]any{"enabled": true}}); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		t.Errorf("not made: %v", err)
	}
}

func TestModesAndFlags(t *testing.T) {
	task := suite.NewTask(t, map[string]any{
		"privileged": true, "pid_mode": "private", "ipc_mode": "private", "cgroupns": "host", "network_mode": "net", "mac_address": "02:42:ac:11:00:02",
		"ipv4_address": "10.0.0.9", "command": "run", "args": []any{"fast"}, "healthchecks": []any{map[string]any{"disable": true}}, "init": true,
		"interactive": true, "storage_opt": map[string]any{"size": "1G"}, "dns_options": []any{"ndots:1"}, "oom_score_adj": 7,
		"devices": []any{map[string]any{"host_path": "/dev/null"}}, "volumes": []any{"local/a:/a:ro,rslave"},
		"mount": []any{map[string]any{"target": "/v", "source": "name", "volume_options": map[string]any{"no_copy": true}}},
	})
	s, err := build(t, task, map[string]any{"allow_privileged": true, "volumes": map[string]any{"selinuxlabel": "z"}})
	if err != nil {
		t.Fatal(err)
	}
	c, h := s.Options.Config, s.Options.HostConfig
	if !h.Privileged || h.PidMode != "" || h.IpcMode != "private" || h.CgroupnsMode != "host" || !*h.Init || h.OomScoreAdj != 7 || len(h.CapAdd) > 0 ||
		h.StorageOpt["size"] != "1G" || len(h.Devices) != 1 || h.Devices[0].CgroupPermissions != "rwm" {
		t.Errorf("host config %+v", h)
	}
	if strings.Join(c.Cmd, " ") != "run fast" || c.Healthcheck.Test[0] != "NONE" || !c.OpenStdin {
		t.Errorf("config %+v", c)
	}
	end := s.Options.NetworkingConfig.EndpointsConfig["net"]
	if end == nil || end.MacAddress.String() != "02:42:ac:11:00:02" || end.IPAMConfig.IPv4Address.String() != "10.0.0.9" {
		t.Errorf("endpoint %+v", end)
	}
	if len(h.Mounts) != 1 || !h.Mounts[0].VolumeOptions.NoCopy {
		t.Errorf("mounts %+v", h.Mounts)
	}
	if binds := strings.Join(h.Binds, " "); !strings.Contains(binds, ":/alloc:rw,z ") || !strings.HasSuffix(binds, ":/a:ro,z,rslave") {
		t.Errorf("binds %q", binds)
	}
}
