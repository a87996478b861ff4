package spec

import (
	"bufio"
	"cmp"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Files of a container that the engine writes.
const (
	HostsFile  = "/etc/hosts"
	ResolvFile = "/etc/resolv.conf"
)

// Paths within the container that joins a network namespace.
const (
	joinProgram   = "/nomad-join"
	joinNamespace = "/nomad-netns"
)

// checkJoined refuses what the engine does not do for a container in the network of an allocation.
func checkJoined(in Input) error {
	t, c := in.Task, in.Config
	if t.Network == "" {
		if t.NetworkMode != "" && t.NetworkMode != "host" {
			return invalid(t, "the network of mode %q of its group was not made", t.NetworkMode)
		}
		return nil
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"network_mode", c.NetworkMode != ""},
		{"port_map", len(c.PortMap) > 0},
		{"mac_address", c.MACAddress != ""},
	} {
		if k.set {
			return invalid(t, "%q is not possible in a group network of mode %q, which defines it: remove it", k.key, t.NetworkMode)
		}
	}
	for _, label := range c.Ports {
		if _, err := portOf(t, "ports", label); err != nil {
			return err
		}
	}
	return nil
}

// ownDNS reports whether the task has resolvers of its own.
func ownDNS(c *config.Task) bool {
	return len(c.DNSServers)+len(c.DNSSearch)+len(c.DNSOptions) > 0
}

// join moves what the engine takes from the container whose network is joined to the description of that container: host name,
// hosts and resolvers.
func (s *Spec) join(in Input) {
	t, h := in.Task, s.Options.HostConfig
	labels := map[string]string{LabelPrefix + "alloc_id": t.AllocID}
	maps.Copy(labels, in.JoinLabels)
	s.Joiner = &client.ContainerCreateOptions{
		Name: "nomad-net-" + ContainerName(t),
		Config: &container.Config{
			Image: in.Image, Entrypoint: []string{joinProgram}, Cmd: []string{}, User: "0:0", WorkingDir: "/", Labels: labels,
			Hostname: cmp.Or(s.Options.Config.Hostname, t.Hostname), Env: []string{frame.JoinKey + "=" + joinNamespace, "GOMAXPROCS=1"},
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", UsernsMode: "host", CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_ADMIN"}, SecurityOpt: []string{"label=disable"},
			DNS: h.DNS, DNSOptions: h.DNSOptions, DNSSearch: h.DNSSearch, ExtraHosts: slices.Concat(h.ExtraHosts, hostsOf(t.Mounts)),
			LogConfig: container.LogConfig{Type: "json-file"},
			Mounts: []mount.Mount{
				{Type: mount.TypeBind, Source: in.JoinProgram, Target: joinProgram, ReadOnly: true},
				{Type: mount.TypeBind, Source: t.Network, Target: joinNamespace, ReadOnly: true},
			},
		},
	}
	s.Options.Config.Hostname = ""
	h.DNS, h.DNSOptions, h.DNSSearch, h.ExtraHosts = nil, nil, nil, nil
}

// hostsOf are the names in the hosts file of the allocation, as the engine takes them: it adds those of the loopback interface.
func hostsOf(mounts []driver.Mount) (out []string) {
	i := slices.IndexFunc(mounts, func(m driver.Mount) bool { return m.Destination == HostsFile })
	if i < 0 {
		return nil
	}
	f, err := os.Open(mounts[i].Source)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if ip, err := netip.ParseAddr(fields[0]); err != nil || ip.IsLoopback() {
			continue
		}
		for _, name := range fields[1:] {
			out = append(out, name+":"+fields[0])
		}
	}
	return out
}
