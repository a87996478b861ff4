package qemu_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/qemu"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
)

var program, bin string

const emulator = "qemu-system-x86_64"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == emulator {
		os.Exit(standIn(os.Args[1:]))
	}
	dir, err := os.MkdirTemp("", "qemu")
	if err == nil {
		program, err = build.Program(context.Background(), dir)
	}
	bin = filepath.Join(dir, "bin")
	if err = errors.Join(err, os.Chmod(dir, 0o755), os.Mkdir(bin, 0o755), copySelf(filepath.Join(bin, emulator)), os.Setenv("PATH", bin+":"+os.Getenv("PATH"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func copySelf(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// standIn is the emulator of the tests: it prints its arguments, runs the script after -sh, and otherwise waits for the
// power button on its monitor.
func standIn(args []string) int {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright (c)")
		return 0
	}
	if i := slices.Index(args, "-sh"); i >= 0 {
		fmt.Fprintln(os.Stderr, syscall.Exec("/bin/sh", []string{"sh", "-c", args[i+1]}, os.Environ()))
		return 1
	}
	fmt.Println(strings.Join(args, "\n"))
	i := slices.Index(args, "-monitor")
	if i < 0 {
		return 0
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(args[i+1], "unix:"), ",")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listens")
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		fmt.Fprint(c, "QEMU 7.2.22 monitor\n(qemu) ")
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprint(c, "(qemu) ")
		fmt.Printf("monitor: %s", line)
		if line == "system_powerdown\n" && !slices.Contains(args, "-deaf") {
			return 9
		}
	}
}

func newDriver(t *testing.T, stateDir string, config map[string]any) *qemu.Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("qemu needs root")
	}
	c, err := qemu.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.StateDir, c.Program = stateDir, program
	c.ChrootEnv = map[string]string{bin: bin}
	for _, path := range exec.DefaultChrootEnv {
		c.ChrootEnv[path] = path
	}
	return qemu.New(c, hclog.NewNullLogger())
}

func sh(script string) map[string]any {
	return map[string]any{"image_path": "local/x.img", "args": []any{"-sh", script}}
}

func TestContract(t *testing.T) {
	var dirs sync.Map
	suite.Run(t, suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			return newDriver(t, dir.(string), nil)
		},
		Sleep:     sh(`exec sleep 1000`),
		Stubborn:  sh(`trap '' INT TERM; echo ready; while :; do sleep 1000; done`),
		Exit7:     sh(`exit 7`),
		Print:     sh(`echo out; echo err >&2`),
		ReadMount: sh(`cat data/hello`),
		Bad:       map[string]any{"image_path": "x", "accelerator": "xen"},
		BadKey:    "accelerator",
		Durable:   true,
		Logs:      true,
	})
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	images := t.TempDir()
	d := newDriver(t, t.TempDir(), map[string]any{"image_paths": []any{images}, "args_allowlist": []any{"-smp", "-snapshot"}})
	task := suite.NewTask(t, map[string]any{
		"image_path": images + "/a,b.img", "machine_type": "q35", "drive_interface": "virtio", "guest_agent": true,
		"args": []any{"-smp", "2"}, "port_map": []any{map[string]any{"ssh": 22}},
	})
	task.Resources.MemoryMB = 300
	task.Ports = []driver.Port{{Label: "ssh", HostIP: "10.0.0.1", Value: 21300}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
		t.Errorf("exit %+v %v", x, err)
	}
	want := []string{
		"-machine", "type=q35,accel=tcg", "-name", "web", "-m", "300M", "-drive", "file=" + images + "/a,,b.img,if=virtio", "-nographic",
		"-chardev", "socket,path=/qa.sock,server=on,wait=off,id=qga0", "-device", "virtio-serial", "-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0",
		"-smp", "2", "-netdev", "user,id=user.0,hostfwd=tcp:10.0.0.1:21300-:22,hostfwd=udp:10.0.0.1:21300-:22", "-device", "virtio-net,netdev=user.0", "",
	}
	if got := strings.Split(suite.LogText(task, "stdout"), "\n"); !slices.Equal(got, want) {
		t.Errorf("arguments\n%q, want\n%q", got, want)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

func TestPortsInTheNetworkOfTheAllocation(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	task := suite.NewTask(t, map[string]any{"image_path": "/alloc/x.img", "port_map": map[string]any{"http": 80, "ssh": 22}})
	task.Network, task.NetworkMode = "/proc/self/ns/net", "bridge"
	task.Ports = []driver.Port{{Label: "http", HostIP: "10.0.0.1", Value: 21300, To: 8080}, {Label: "ssh", HostIP: "10.0.0.1", Value: 21301}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
		t.Errorf("exit %+v %v", x, err)
	}
	want := "user,id=user.0,hostfwd=tcp::8080-:80,hostfwd=udp::8080-:80,hostfwd=tcp::21301-:22,hostfwd=udp::21301-:22"
	if got := suite.LogText(task, "stdout"); !strings.Contains(got, want) {
		t.Errorf("arguments\n%s, want\n%s", got, want)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

func TestGracefulShutdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		args     []any
		recovers bool
		timeout  time.Duration
		code     int
	}{
		{"machine that obeys", nil, false, time.Minute, 9},
		{"machine of an earlier agent", nil, true, time.Minute, 9},
		{"machine that does not obey", []any{"-deaf"}, false, 300 * time.Millisecond, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			d := newDriver(t, state, nil)
			task := suite.NewTask(t, map[string]any{"image_path": "/alloc/x.img", "graceful_shutdown": true, "args": c.args})
			if err := os.Chmod(task.Dir, 0o777); err != nil {
				t.Fatal(err)
			}
			h, err := d.Start(suite.Context(t), task)
			if err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the monitor listens", func() bool { return strings.HasSuffix(suite.LogText(task, "stdout"), "listens\n") })
			if c.recovers {
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d = newDriver(t, state, nil)
				if err := d.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Stop(suite.Context(t), task.ID, "", c.timeout); err != nil {
				t.Error(err)
			}
			if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != c.code {
				t.Errorf("exit %+v %v, want code %d", x, err, c.code)
			}
			if got := suite.LogText(task, "stdout"); strings.Count(got, "monitor: system_powerdown\n") != 1 {
				t.Errorf("output %q", got)
			}
			if err := d.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// A task may replace the socket by a link to one of the host.
func TestMonitorOfTheHostIsNotReached(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "of-host.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			close(reached)
			c.Close()
		}
	}()
	d := newDriver(t, t.TempDir(), nil)
	task := suite.NewTask(t, sh(`exec sleep 1000`))
	if err := os.Symlink("/proc/self/root"+l.Addr().String(), filepath.Join(task.Dir, "qemu-monitor.sock")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Stop(suite.Context(t), task.ID, "", time.Minute), d.Destroy(suite.Context(t), task.ID)); err != nil {
		t.Error(err)
	}
	select {
	case <-reached:
		t.Error("the driver has connected to a socket of the host")
	default:
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), map[string]any{"image_paths": []any{"/srv/images"}, "args_allowlist": []any{"-smp"}, "emulators_allowlist": []any{emulator}})
	for want, config := range map[string]map[string]any{
		`"image_path" is required`:                                    {},
		`"image_path": "/etc/shadow" is neither`:                      {"image_path": "/etc/shadow"},
		`"image_path": "/srv/images/../x" is neither`:                 {"image_path": "/srv/images/../x"},
		`"args_allowlist" of the node's agent does not have "-drive"`: {"image_path": "x", "args": []any{"-smp", "1", "-drive", "file=/x"}},
		`does not have "qemu-system-arm"`:                             {"image_path": "x", "emulator": "qemu-system-arm"},
		`"emulator" must be`:                                          {"image_path": "x", "emulator": "/bin/sh"},
		`"drive_interface" must be`:                                   {"image_path": "x", "drive_interface": "nvme"},
		`"machine_type" must be`:                                      {"image_path": "x", "machine_type": "pc,usb=on"},
		`"port_map" has ssh = 0`:                                      {"image_path": "x", "port_map": map[string]any{"ssh": 0}},
		`"port_map" has "ssh", which is no port`:                      {"image_path": "x", "port_map": map[string]any{"ssh": 22}},
	} {
		_, err := d.Start(suite.Context(t), suite.NewTask(t, config))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", config, err, want)
		}
	}
	for key, value := range map[string]any{"image_paths": []any{"relative"}, "args_allowlist": []any{"smp"}, "emulators_allowlist": []any{"/bin/sh"}, "allow_caps": []any{}} {
		if _, err := qemu.ParseConfig(map[string]any{key: value}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
}

func TestHealth(t *testing.T) { // changes the environment
	report := func(config map[string]any) driver.Fingerprint {
		ch, err := newDriver(t, t.TempDir(), config).Fingerprint(suite.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return <-ch
	}
	t.Setenv("PATH", bin)
	if f := report(nil); f.Health != driver.Healthy || f.Attributes["driver.qemu"] != "true" || f.Attributes["driver.qemu.version"] != "7.2.22" || f.Attributes["driver.qemu.emulators"] != emulator {
		t.Errorf("%+v", f)
	}
	if f := report(map[string]any{"emulators_allowlist": []any{"qemu-system-arm"}}); f.Health != driver.Undetected || f.Attributes["driver.qemu"] != "" {
		t.Errorf("without a permitted emulator: %+v", f)
	}
}
