package spec

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

// Input is what a container is made of.
type Input struct {
	Task   *driver.Task
	Config *config.Task
	Plugin *config.Plugin
	// Image is the id of the image.
	Image string
	// Stage is a directory for the binds of checked paths; no other container has it.
	Stage string
	// JoinProgram and JoinLabels are the program that joins a network namespace, on the host, and the labels of its container.
	JoinProgram string
	JoinLabels  map[string]string
	// Labels are those by which the driver finds its containers.
	Labels map[string]string
}

// Spec describes a container. Close it when the container has started, or is not to.
type Spec struct {
	Options client.ContainerCreateOptions
	// stage is the directory of the binds, and staged how many there are.
	stage  string
	staged int
	// Joiner describes the container through which this one joins the network of its allocation; nil when it does not.
	Joiner *client.ContainerCreateOptions
}

// Close removes the binds of checked paths.
func (s *Spec) Close() error {
	if s.staged == 0 {
		return nil
	}
	return unstage(s.stage)
}

// ContainerName is the name of the container of a task.
func ContainerName(t *driver.Task) string { return t.Name + "-" + t.AllocID }

// New describes the container of a task.
func New(in Input) (*Spec, error) {
	t, c := in.Task, in.Config
	if err := in.Plugin.Allowed(c); err != nil {
		return nil, err
	}
	if err := checkJoined(in); err != nil {
		return nil, err
	}
	s := &Spec{stage: in.Stage, Options: client.ContainerCreateOptions{
		Name: ContainerName(t),
		Config: &container.Config{
			Image: in.Image, Hostname: c.Hostname, User: t.User, Tty: c.TTY, OpenStdin: c.Interactive, Env: env(t.Env),
			WorkingDir: c.WorkDir, Labels: labels(in), Entrypoint: c.Entrypoint,
		},
		HostConfig: &container.HostConfig{
			NetworkMode: container.NetworkMode(cmp.Or(c.NetworkMode, "bridge")), VolumeDriver: c.VolumeDriver,
			CgroupnsMode: container.CgroupnsMode(c.Cgroupns), DNSOptions: c.DNSOptions, DNSSearch: c.DNSSearch, ExtraHosts: c.ExtraHosts,
			GroupAdd: c.GroupAdd, OomScoreAdj: cmp.Or(c.OOMScoreAdj, in.Plugin.OOMScoreAdj), Privileged: c.Privileged,
			IpcMode: container.IpcMode(c.IPCMode), PidMode: container.PidMode(hostMode(c.PIDMode)), UTSMode: container.UTSMode(hostMode(c.UTSMode)),
			UsernsMode: container.UsernsMode(hostMode(c.UsernsMode)), ReadonlyRootfs: c.ReadonlyRootfs, StorageOpt: c.StorageOpt, ShmSize: c.ShmSizeBytes,
			Sysctls: c.Sysctl, Runtime: runtime(in),
		},
	}}
	s.Options.Config.Cmd = command(c)
	if c.Healthchecks.Disable {
		s.Options.Config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	h := s.Options.HostConfig
	if c.Init {
		h.Init = &c.Init
	}
	logging := in.Plugin.EffectiveLogging(c)
	h.LogConfig = container.LogConfig{Type: logging.Type, Config: logging.Config}
	for _, a := range c.DNSServers {
		h.DNS = append(h.DNS, netip.MustParseAddr(a)) // checked by the config
	}
	if t.Network != "" {
		s.join(in)
	}
	h.CapAdd, h.CapDrop, _ = in.Plugin.Capabilities(c) // checked above
	for _, err := range []error{setResources(&h.Resources, in), s.setNetwork(in), s.setSecurity(in), s.setMounts(in)} {
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func invalid(t *driver.Task, format string, args ...any) error {
	return fault.New(fault.Invalid, "task "+strings.ReplaceAll(t.Name, "%", "%%")+": "+format, args...)
}

// command is what the image's entrypoint gets: the command, and its arguments.
func command(c *config.Task) []string {
	if c.Command == "" {
		return c.Args
	}
	return append([]string{c.Command}, c.Args...)
}

func env(vars map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, k+"="+vars[k])
	}
	return out
}

// hostMode is a mode as the engine takes it: there private is empty.
func hostMode(mode string) string {
	if mode == "private" {
		return ""
	}
	return mode
}

// runtime is that of the task, else that of GPUs when the task has devices of this kind.
func runtime(in Input) string {
	if devices := in.Task.Env["NVIDIA_VISIBLE_DEVICES"]; in.Config.Runtime == "" && len(in.Task.Devices) > 0 && devices != "" && devices != "none" {
		return in.Plugin.NvidiaRuntime
	}
	return in.Config.Runtime
}

// LabelPrefix begins the names of labels that users know.
const LabelPrefix = "com.hashicorp.nomad."

func labels(in Input) map[string]string {
	t := in.Task
	out := maps.Clone(in.Config.Labels)
	if out == nil {
		out = map[string]string{}
	}
	facts := map[string]string{
		"job_name": t.JobName, "job_id": t.JobID, "parent_job_id": t.Env["NOMAD_JOB_PARENT_ID"], "task_group_name": t.TaskGroup,
		"task_name": t.Name, "namespace": t.Namespace, "node_name": t.NodeName, "node_id": t.NodeID,
	}
	for name, value := range facts {
		if value != "" && slices.ContainsFunc(in.Plugin.ExtraLabels, func(pattern string) bool {
			ok, _ := path.Match(pattern, name) // checked by the config
			return ok
		}) {
			out[LabelPrefix+name] = value
		}
	}
	out[LabelPrefix+"alloc_id"] = t.AllocID
	maps.Copy(out, in.Labels)
	return out
}

// sharesMin is the smallest number of shares that the engine takes.
const sharesMin = 2

func setResources(r *container.Resources, in Input) error {
	t, c, res := in.Task, in.Config, in.Task.Resources
	r.CPUShares = res.CPUShares
	if r.CPUShares > 0 {
		r.CPUShares = max(r.CPUShares, sharesMin)
	}
	if c.CPUHardLimit {
		if res.NodeCPUShares <= 0 {
			return invalid(t, `"cpu_hard_limit" is not possible: the node does not know how much its processors compute`)
		}
		cores := int64(numCPU())
		r.CPUPeriod = c.CPUPeriod
		r.CPUQuota = max(res.CPUShares*cores*c.CPUPeriod/res.NodeCPUShares, quotaMin)
	}
	if c.CpusetCPUs != "" && res.Cores != "" {
		return invalid(t, `"cpuset_cpus" and reserved cores exclude each other`)
	}
	r.CpusetCpus = cmp.Or(res.Cores, c.CpusetCPUs)
	limit := max(res.MemoryMaxMB, c.MemoryHardLimitMB)
	switch {
	case limit > 0 && limit < res.MemoryMB:
		return invalid(t, `"memory_hard_limit" of %d MB is less than the memory of %d MB`, limit, res.MemoryMB)
	case limit > 0:
		r.Memory, r.MemoryReservation = limit<<20, res.MemoryMB<<20
	default:
		r.Memory = res.MemoryMB << 20
	}
	r.MemorySwap = r.Memory // no swap
	if pids := in.Plugin.EffectivePids(c); pids > 0 {
		r.PidsLimit = &pids
	}
	for _, name := range slices.Sorted(maps.Keys(c.Ulimit)) {
		soft, hard, err := config.ParseUlimit(c.Ulimit[name])
		if err != nil {
			return err
		}
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: name, Soft: soft, Hard: hard})
	}
	for _, d := range c.Devices {
		r.Devices = append(r.Devices, container.DeviceMapping{PathOnHost: d.HostPath, PathInContainer: d.ContainerPath, CgroupPermissions: d.Permissions})
	}
	for _, d := range t.Devices {
		r.Devices = append(r.Devices, container.DeviceMapping{
			PathOnHost: d.HostPath, PathInContainer: cmp.Or(d.TaskPath, d.HostPath), CgroupPermissions: cmp.Or(d.Permissions, "rwm"),
		})
	}
	return nil
}

// portOf is the port of the group's network that a key of the config names.
func portOf(t *driver.Task, key, label string) (driver.Port, error) {
	i := slices.IndexFunc(t.Ports, func(p driver.Port) bool { return p.Label == label })
	if i < 0 {
		return driver.Port{}, invalid(t, "%q names the port %q, which the group's network does not have", key, label)
	}
	return t.Ports[i], nil
}

// quotaMin is the smallest quota that the kernel takes, in microseconds.
const quotaMin = 1000

// setNetwork publishes ports on the host and describes the container's address.
func (s *Spec) setNetwork(in Input) error {
	t, c, h := in.Task, in.Config, s.Options.HostConfig
	if t.Network != "" {
		return nil // the network of the allocation forwards its ports
	}
	h.PortBindings, s.Options.Config.ExposedPorts = network.PortMap{}, network.PortSet{}
	publish := func(p driver.Port, to int) error {
		if p.HostIP == "" {
			return invalid(t, "port %q has no address on the host", p.Label)
		}
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil {
			return invalid(t, "port %q has the address %q: %w", p.Label, p.HostIP, err)
		}
		for _, proto := range []network.IPProtocol{network.TCP, network.UDP} {
			port, _ := network.PortFrom(uint16(to), proto)
			s.Options.Config.ExposedPorts[port] = struct{}{}
			h.PortBindings[port] = append(h.PortBindings[port], network.PortBinding{HostIP: ip, HostPort: strconv.Itoa(p.Value)})
		}
		return nil
	}
	for _, label := range c.Ports {
		p, err := portOf(t, "ports", label)
		if err == nil {
			err = publish(p, cmp.Or(p.To, p.Value))
		}
		if err != nil {
			return err
		}
	}
	for _, label := range slices.Sorted(maps.Keys(c.PortMap)) {
		p, err := portOf(t, "port_map", label)
		if err == nil {
			to, _ := strconv.Atoi(c.PortMap[label]) // checked by the config
			err = publish(p, to)
		}
		if err != nil {
			return err
		}
	}
	if c.MACAddress == "" && c.IPv4Address == "" && c.IPv6Address == "" && len(c.NetworkAliases) == 0 {
		return nil
	}
	end := &network.EndpointSettings{Aliases: c.NetworkAliases}
	if c.MACAddress != "" {
		mac, err := net.ParseMAC(c.MACAddress)
		if err != nil {
			return invalid(t, `"mac_address": %w`, err)
		}
		end.MacAddress = network.HardwareAddr(mac)
	}
	if c.IPv4Address != "" || c.IPv6Address != "" {
		end.IPAMConfig = &network.EndpointIPAMConfig{}
		end.IPAMConfig.IPv4Address, _ = netip.ParseAddr(c.IPv4Address) // checked by the config
		end.IPAMConfig.IPv6Address, _ = netip.ParseAddr(c.IPv6Address)
	}
	s.Options.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{string(h.NetworkMode): end}}
	return nil
}

// volumeMount is a mount of the engine's volume or tmpfs.
func volumeMount(m config.Mount) mount.Mount {
	out := mount.Mount{Type: mount.Type(m.Type), Target: m.Target, Source: m.Source, ReadOnly: m.ReadOnly}
	if m.Type == "tmpfs" {
		out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: m.Tmpfs.SizeBytes, Mode: os.FileMode(m.Tmpfs.Mode)}
		return out
	}
	out.VolumeOptions = &mount.VolumeOptions{NoCopy: m.Volume.NoCopy, Labels: m.Volume.Labels}
	if d := m.Volume.Driver; d.Name != "" || len(d.Options) > 0 {
		out.VolumeOptions.DriverConfig = &mount.Driver{Name: d.Name, Options: d.Options}
	}
	return out
}
