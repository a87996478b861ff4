package config

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/cpulist"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Task is the config block of a task.
type Task struct {
	Image             string            `config:"image,required"`
	AdvertiseIPv6     bool              `config:"advertise_ipv6_address"`
	Args              []string          `config:"args"`
	Auth              Auth              `config:"auth"`
	AuthSoftFail      bool              `config:"auth_soft_fail"`
	CapAdd            []string          `config:"cap_add"`
	CapDrop           []string          `config:"cap_drop"`
	Cgroupns          string            `config:"cgroupns"`
	Command           string            `config:"command"`
	CpusetCPUs        string            `config:"cpuset_cpus"`
	CPUHardLimit      bool              `config:"cpu_hard_limit"`
	CPUPeriod         int64             `config:"cpu_cfs_period"`
	ExistsAttempts    int               `config:"container_exists_attempts"`
	Devices           []Device          `config:"devices"`
	DNSSearch         []string          `config:"dns_search_domains"`
	DNSOptions        []string          `config:"dns_options"`
	DNSServers        []string          `config:"dns_servers"`
	Entrypoint        []string          `config:"entrypoint"`
	ExtraHosts        []string          `config:"extra_hosts"`
	ForcePull         bool              `config:"force_pull"`
	GroupAdd          []string          `config:"group_add"`
	Healthchecks      Healthchecks      `config:"healthchecks"`
	Hostname          string            `config:"hostname"`
	Init              bool              `config:"init"`
	Interactive       bool              `config:"interactive"`
	IPCMode           string            `config:"ipc_mode"`
	IPv4Address       string            `config:"ipv4_address"`
	IPv6Address       string            `config:"ipv6_address"`
	Isolation         string            `config:"isolation"`
	Labels            map[string]string `config:"labels"`
	Load              string            `config:"load"`
	Logging           TaskLogging       `config:"logging"`
	MACAddress        string            `config:"mac_address"`
	MemoryHardLimitMB int64             `config:"memory_hard_limit"`
	Mount             []Mount           `config:"mount"`
	Mounts            []Mount           `config:"mounts"`
	NetworkAliases    []string          `config:"network_aliases"`
	NetworkMode       string            `config:"network_mode"`
	OOMScoreAdj       int               `config:"oom_score_adj"`
	Runtime           string            `config:"runtime"`
	PidsLimit         int64             `config:"pids_limit"`
	PIDMode           string            `config:"pid_mode"`
	Ports             []string          `config:"ports"`
	PortMap           map[string]string `config:"port_map"`
	Privileged        bool              `config:"privileged"`
	ImagePullTimeout  time.Duration     `config:"image_pull_timeout"`
	ReadonlyRootfs    bool              `config:"readonly_rootfs"`
	SecurityOpt       []string          `config:"security_opt"`
	ShmSizeBytes      int64             `config:"shm_size"`
	StorageOpt        map[string]string `config:"storage_opt"`
	Sysctl            map[string]string `config:"sysctl"`
	TTY               bool              `config:"tty"`
	Ulimit            map[string]string `config:"ulimit"`
	UTSMode           string            `config:"uts_mode"`
	UsernsMode        string            `config:"userns_mode"`
	Volumes           []string          `config:"volumes"`
	VolumeDriver      string            `config:"volume_driver"`
	WorkDir           string            `config:"work_dir"`
}

// TaskLogging is [Logging], with another name of Type.
type TaskLogging struct {
	Type   string            `config:"type"`
	Driver string            `config:"driver"`
	Config map[string]string `config:"config"`
}

// Auth is an account of a registry.
type Auth struct {
	Username      string `config:"username"`
	Password      string `config:"password"`
	Email         string `config:"email"`
	ServerAddress string `config:"server_address"`
}

// Device is a device node of the host.
type Device struct {
	HostPath      string `config:"host_path"`
	ContainerPath string `config:"container_path"`
	Permissions   string `config:"cgroup_permissions"`
}

// Healthchecks is about the checks that the engine makes inside the container.
type Healthchecks struct {
	Disable bool `config:"disable"`
}

// Mount is a mount of the type bind, volume or tmpfs.
type Mount struct {
	Type     string `config:"type"`
	Target   string `config:"target"`
	Source   string `config:"source"`
	ReadOnly bool   `config:"readonly"`
	Bind     struct {
		Propagation string `config:"propagation"`
	} `config:"bind_options"`
	Tmpfs struct {
		SizeBytes int64 `config:"size"`
		Mode      int64 `config:"mode"`
	} `config:"tmpfs_options"`
	Volume struct {
		NoCopy bool              `config:"no_copy"`
		Labels map[string]string `config:"labels"`
		Driver struct {
			Name    string            `config:"name"`
			Options map[string]string `config:"options"`
		} `config:"driver_config"`
	} `config:"volume_options"`
}

// Propagations are the ways in which mounts of one side appear on the other.
var Propagations = []string{"private", "rprivate", "shared", "rshared", "slave", "rslave"}

// ParseTask reads the config block of a task and checks what needs nothing of the node. Defaults of the plugin are not
// filled in.
func ParseTask(config map[string]any) (*Task, error) {
	t := &Task{CPUPeriod: 100_000}
	if err := driver.DecodeConfig(Name, config, t); err != nil {
		return nil, err
	}
	t.Mount = slices.Concat(t.Mount, t.Mounts)
	t.Mounts = nil
	for i := range t.Mount {
		t.Mount[i].Type = cmp.Or(t.Mount[i].Type, "volume")
	}
	for i := range t.Devices {
		d := &t.Devices[i]
		d.ContainerPath, d.Permissions = cmp.Or(d.ContainerPath, d.HostPath), cmp.Or(d.Permissions, "rwm")
	}
	if err := t.checkValues(); err != nil {
		return nil, err
	}
	return t, t.checkMounts()
}

func (t *Task) checkValues() error {
	for name, bad := range map[string]bool{
		"image_pull_timeout": t.ImagePullTimeout < 0, "memory_hard_limit": t.MemoryHardLimitMB < 0, "pids_limit": t.PidsLimit < 0,
		"shm_size": t.ShmSizeBytes < 0, "oom_score_adj": t.OOMScoreAdj < -1000 || t.OOMScoreAdj > 1000,
		"container_exists_attempts": t.ExistsAttempts < 0, "cpu_cfs_period": t.CPUPeriod < 1000 || t.CPUPeriod > 1_000_000,
	} {
		if bad {
			return invalid("%q is out of range", name)
		}
	}
	switch {
	case t.Image == "":
		return invalid(`"image" is empty`)
	case t.Isolation != "" && t.Isolation != "default":
		return invalid(`"isolation" %q is for Windows, which this version does not run on; remove it`, t.Isolation)
	case t.AdvertiseIPv6:
		return invalid(`"advertise_ipv6_address" is not supported yet; remove it`)
	case t.Cgroupns != "" && t.Cgroupns != "host" && t.Cgroupns != "private":
		return invalid(`"cgroupns" is %q; it can be host or private`, t.Cgroupns)
	case len(t.Ports) > 0 && len(t.PortMap) > 0:
		return invalid(`only one of "ports" and "port_map" may be set`)
	case len(t.NetworkAliases) > 0 && !t.userNetwork():
		return invalid(`"network_aliases" needs the name of a network of the engine as "network_mode"`)
	case t.IPv4Address+t.IPv6Address != "" && !t.userNetwork():
		return invalid(`"ipv4_address" and "ipv6_address" need the name of a network of the engine as "network_mode"`)
	case strings.HasPrefix(t.NetworkMode, "cni/"):
		return invalid(`"network_mode" %q is not supported: this version has no CNI networks`, t.NetworkMode)
	}
	for _, list := range []struct {
		key       string
		addresses []string
	}{{"ipv4_address", nonEmpty(t.IPv4Address)}, {"ipv6_address", nonEmpty(t.IPv6Address)}, {"dns_servers", t.DNSServers}} {
		for _, a := range list.addresses {
			if _, err := netip.ParseAddr(a); err != nil {
				return invalid("%q has %q, which is no IP address", list.key, a)
			}
		}
	}
	if _, err := net.ParseMAC(t.MACAddress); err != nil && t.MACAddress != "" {
		return invalid(`"mac_address" %q is no hardware address`, t.MACAddress)
	}
	for _, label := range slices.Sorted(maps.Keys(t.PortMap)) {
		if n, err := strconv.Atoi(t.PortMap[label]); err != nil || n < 1 || n > 65535 {
			return invalid(`"port_map" has the port %q for %q, which is no port number`, t.PortMap[label], label)
		}
	}
	if _, err := cpulist.Parse(t.CpusetCPUs); err != nil {
		return invalid(`"cpuset_cpus": %w`, err)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Ulimit)) {
		if _, _, err := ParseUlimit(t.Ulimit[name]); err != nil {
			return invalid(`"ulimit" %q has the value %q: want a number, or soft:hard`, name, t.Ulimit[name])
		}
	}
	return nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// userNetwork reports whether the network mode names a network that users made.
func (t *Task) userNetwork() bool {
	return !slices.Contains([]string{"", "bridge", "default", "host", "none"}, t.NetworkMode) && !strings.HasPrefix(t.NetworkMode, "container:")
}

func (t *Task) checkMounts() error {
	for _, d := range t.Devices {
		switch {
		case !path.IsAbs(d.HostPath) || !path.IsAbs(d.ContainerPath):
			return invalid(`"devices" needs absolute paths, not %q and %q`, d.HostPath, d.ContainerPath)
		case strings.Trim(d.Permissions, "rwm") != "":
			return invalid(`"devices.cgroup_permissions" is %q; it is made of r, w and m`, d.Permissions)
		}
	}
	for _, m := range t.Mount {
		switch {
		case m.Target == "":
			return invalid(`"mount.target" is required`)
		case !slices.Contains([]string{"bind", "volume", "tmpfs"}, m.Type):
			return invalid(`"mount.type" is %q; it can be bind, volume or tmpfs`, m.Type)
		case m.Type == "bind" && m.Source == "":
			return invalid(`"mount.source" is required for the mount of type bind at %q`, m.Target)
		case m.Type == "tmpfs" && m.Source != "":
			return invalid(`"mount.source" is not possible for the mount of type tmpfs at %q`, m.Target)
		case m.Type != "bind" && m.Bind.Propagation != "":
			return invalid(`"mount.bind_options" is only for mounts of type bind, not for that at %q`, m.Target)
		case m.Bind.Propagation != "" && !slices.Contains(Propagations, m.Bind.Propagation):
			return invalid(`"mount.bind_options.propagation" is %q; it can be one of %s`, m.Bind.Propagation, strings.Join(Propagations, ", "))
		case m.Tmpfs.SizeBytes < 0 || m.Tmpfs.Mode < 0 || m.Tmpfs.Mode > 0o7777:
			return invalid(`"mount.tmpfs_options" of the mount at %q is out of range`, m.Target)
		}
	}
	for _, v := range t.Volumes {
		if _, err := ParseVolume(v); err != nil {
			return err
		}
	}
	return nil
}

// Volume is an entry of volumes.
type Volume struct {
	Source, Target string
	ReadOnly       bool
	Propagation    string
	// Label is z or Z, which asks the engine to set the SELinux label.
	Label string
}

// ParseVolume reads an entry of volumes: source:target, or source:target:mode.
func ParseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return Volume{}, invalid(`"volumes" has %q: want source:target or source:target:mode`, text)
	}
	v := Volume{Source: parts[0], Target: parts[1]}
	if len(parts) == 2 {
		return v, nil
	}
	for word := range strings.SplitSeq(parts[2], ",") {
		switch {
		case word == "ro":
			v.ReadOnly = true
		case word == "rw":
		case word == "z" || word == "Z":
			v.Label = word
		case slices.Contains(Propagations, word):
			v.Propagation = word
		default:
			return Volume{}, invalid(`"volumes" has %q with the mode %q: want ro, rw, z, Z or a propagation`, text, word)
		}
	}
	return v, nil
}

// ParseUlimit reads a limit: one number for both, or soft:hard; -1 is no limit.
func ParseUlimit(text string) (soft, hard int64, err error) {
	first, second, both := strings.Cut(text, ":")
	if soft, err = strconv.ParseInt(first, 10, 64); err != nil || !both {
		return soft, soft, err
	}
	hard, err = strconv.ParseInt(second, 10, 64)
	return soft, hard, err
}
