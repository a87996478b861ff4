package qemu

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
)

// Name is the name of the driver in job files.
const Name = "qemu"

// monitorWait bounds a command to the monitor of a virtual machine.
const monitorWait = 2 * time.Second

// Driver runs virtual machines. Use New.
type Driver struct {
	*exec.Driver
	log hclog.Logger
}

// New makes the driver; it touches nothing before its first task.
func New(c Config, log hclog.Logger) *Driver {
	c.Driver = Name
	var emulator driver.Program
	return &Driver{Driver: exec.NewProgram(c.Config, exec.Program{
		// The memory of the task is that of the guest; the emulator needs more.
		Validate: ValidateConfig, Plan: c.plan, Unlimited: true,
		Probe: func(ctx context.Context) driver.Fingerprint { return c.probe(ctx, &emulator) },
	}, log), log: log.Named(Name)}
}

// Capabilities implements [driver.Driver]: a command would run with the emulator, not in the virtual machine.
func (d *Driver) Capabilities() driver.Capabilities {
	c := d.Driver.Capabilities()
	c.Exec = false
	return c
}

var versionText = lazy.Regexp(`version (\d+(?:\.\d+)+)`)

// probe reports the emulators of the node and the version of one of them.
func (c *Config) probe(ctx context.Context, emulator *driver.Program) driver.Fingerprint {
	version, list := "driver."+Name+".version", "driver."+Name+".emulators"
	f := driver.Fingerprint{Attributes: map[string]string{version: "", list: ""}}
	names, paths := c.emulators()
	if len(names) == 0 {
		f.Health, f.Description = driver.Undetected, "no emulator in the PATH of the agent"
		return f
	}
	first := max(slices.Index(names, defaultEmulator), 0)
	text, err := emulator.Version(ctx, paths[first], "--version")
	if err != nil {
		f.Health, f.Description = driver.Unhealthy, err.Error()
		return f
	}
	if found := versionText().FindStringSubmatch(text); found != nil {
		f.Attributes[version] = found[1]
	}
	f.Health, f.Attributes[list] = driver.Healthy, strings.Join(names, ",")
	return f
}

// Stop asks a virtual machine with graceful_shutdown to shut down, waits and then kills it. Others get the signal.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	st, err := d.Inspect(id)
	if err != nil {
		return err
	}
	if timeout <= 0 || st.State != driver.StateRunning {
		return d.Driver.Stop(ctx, id, signal, timeout)
	}
	switch asked, err := powerDown(ctx, st.Attributes["pid"]); {
	case err != nil:
		d.log.Warn("ask virtual machine to shut down; it gets a signal instead", "task", id, "error", err)
		return d.Driver.Stop(ctx, id, signal, timeout)
	case !asked:
		return d.Driver.Stop(ctx, id, signal, timeout)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := d.Wait(waiting, id); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.Driver.Stop(ctx, id, signal, 0)
}

// powerDown presses the power button of a virtual machine, by the monitor's socket in the root directory of its process. It
// reports whether there is such a socket. The task may write that directory: no link is followed.
func powerDown(ctx context.Context, pid string) (bool, error) {
	root, err := unix.Open("/proc/"+pid+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil //nolint:nilerr // the process has ended
	}
	defer unix.Close(root)
	socket, err := unix.Openat(root, monitorSocket, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil //nolint:nilerr // the task has no graceful_shutdown
	}
	file := os.NewFile(uintptr(socket), monitorSocket)
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(socket, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false, fault.New(fault.Invalid, "%s is no socket", monitorSocket)
	}
	ctx, cancel := context.WithTimeout(ctx, monitorWait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return false, fmt.Errorf("connect to the monitor: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	if _, err := conn.Write([]byte("system_powerdown\n")); err != nil {
		return false, fmt.Errorf("write to the monitor: %w", err)
	}
	prompts(conn)
	return true, nil
}

// prompts reads until the monitor asks for a second command: it has executed the first one.
func prompts(conn net.Conn) {
	var seen []byte
	for b := make([]byte, 4096); bytes.Count(seen, []byte("(qemu) ")) < 2 && len(seen) < 1<<16; {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		seen = append(seen, b[:n]...)
	}
}
