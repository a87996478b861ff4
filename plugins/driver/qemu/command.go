package qemu

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	// monitorSocket and agentSocket are files in the task's directory, which is the root directory of the emulator.
	monitorSocket = "qemu-monitor.sock"
	agentSocket   = "qa.sock"
	kvmDevice     = "/dev/kvm"
)

// plan returns a task of exec that runs the emulator.
func (c *Config) plan(t *driver.Task) (*driver.Task, error) {
	config, err := decode(t.Config)
	if err != nil {
		return nil, err
	}
	if err := c.permitted(config); err != nil {
		return nil, err
	}
	emulator, err := driver.Find(config.Emulator)
	if err != nil {
		return nil, err
	}
	own := *t
	image, err := c.image(&own, config.ImagePath)
	if err != nil {
		return nil, err
	}
	if config.Accelerator == "kvm" {
		if err := addKVM(&own); err != nil {
			return nil, err
		}
	}
	network, err := config.network(t)
	if err != nil {
		return nil, err
	}
	own.Config = map[string]any{"command": emulator, "args": slices.Concat(config.machine(t, image), config.Args, network)}
	return &own, nil
}

// image returns the path of an image in the emulator's root directory: below the allocation, on a volume of the task, or in
// a directory that the agent permits, which is mounted.
func (c *Config) image(t *driver.Task, path string) (string, error) {
	inside := filepath.Clean("/" + path)
	if !filepath.IsAbs(path) {
		return inside, nil
	}
	below := func(dir string) bool { return strings.HasPrefix(inside, filepath.Clean("/"+dir)+"/") }
	if slices.ContainsFunc([]string{"alloc", "local", "secrets", "tmp"}, below) ||
		slices.ContainsFunc(t.Mounts, func(m driver.Mount) bool { return below(m.Destination) }) {
		return inside, nil
	}
	for _, dir := range c.ImagePaths {
		if below(dir) {
			t.Mounts = append(slices.Clone(t.Mounts), driver.Mount{Source: dir, Destination: dir})
			return inside, nil
		}
	}
	return "", invalid(`"image_path": %q is neither in the allocation nor in "image_paths" of the node's agent`, path)
}

// addKVM gives the task the device of KVM, and the group that may use it.
func addKVM(t *driver.Task) error {
	var st unix.Stat_t
	if err := unix.Stat(kvmDevice, &st); err != nil {
		return invalid(`"accelerator": this node has no KVM: %s: %w`, kvmDevice, err)
	}
	t.Devices = append(slices.Clone(t.Devices), driver.Device{HostPath: kvmDevice})
	t.Groups = append(slices.Clone(t.Groups), int64(st.Gid))
	return nil
}

// machine lists the arguments that come before those of the job.
func (t *taskConfig) machine(task *driver.Task, image string) []string {
	out := []string{"-machine", "type=" + t.MachineType + ",accel=" + t.Accelerator, "-name", escaped(task.Name)}
	if m := task.Resources.MemoryMB; m > 0 {
		out = append(out, "-m", fmt.Sprintf("%dM", m))
	}
	out = append(out, "-drive", "file="+escaped(image)+",if="+t.DriveInterface, "-nographic")
	if t.Accelerator == "kvm" {
		out = append(out, "-cpu", "host")
	}
	if t.Graceful {
		out = append(out, "-monitor", "unix:/"+monitorSocket+",server=on,wait=off")
	}
	if t.GuestAgent {
		out = append(out, "-chardev", "socket,path=/"+agentSocket+",server=on,wait=off,id=qga0", "-device", "virtio-serial",
			"-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0")
	}
	return out
}

// network lists the arguments that forward ports of the node, or of the network of the allocation, to those of the machine.
func (t *taskConfig) network(task *driver.Task) ([]string, error) {
	if len(t.ports) == 0 {
		return nil, nil
	}
	netdev := "user,id=user.0"
	for _, label := range slices.Sorted(maps.Keys(t.ports)) {
		i := slices.IndexFunc(task.Ports, func(p driver.Port) bool { return p.Label == label })
		if i < 0 {
			return nil, invalid(`"port_map" has %q, which is no port of the group's network`, label)
		}
		port := task.Ports[i]
		host, value := "", port.Value // of all addresses; the emulator does not forward those of IPv6
		if task.Network != "" {
			value = cmp.Or(port.To, port.Value) // the address of the host is not one of this network
		} else if ip, err := netip.ParseAddr(port.HostIP); err == nil && ip.Is4() {
			host = ip.String()
		}
		for _, protocol := range []string{"tcp", "udp"} {
			netdev += fmt.Sprintf(",hostfwd=%s:%s:%d-:%d", protocol, host, value, t.ports[label])
		}
	}
	return []string{"-netdev", netdev, "-device", "virtio-net,netdev=user.0"}, nil
}

// escaped is a value in a list of options, in which a comma is doubled.
func escaped(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// emulators lists the programs of the node that tasks may run, sorted by name.
func (c *Config) emulators() (names, paths []string) {
	wanted := slices.Clone(c.Emulators)
	if len(wanted) == 0 {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			found, _ := filepath.Glob(filepath.Join(dir, emulatorPrefix+"*"))
			for _, path := range found {
				wanted = append(wanted, filepath.Base(path))
			}
		}
	}
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		if path, err := driver.Find(name); err == nil {
			names, paths = append(names, name), append(paths, path)
		}
	}
	return names, paths
}
