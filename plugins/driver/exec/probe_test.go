package exec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	execdriver "github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// The test program is the task's program too: it tries what its argument names and prints what comes of it.
const (
	probeEnv    = "EXEC_PROBE"
	hostPIDEnv  = "HOST_PID"
	hostPathEnv = "HOST_PATH"
)

// probes are what a task tries. Each returns what it got, or the error.
var probes = map[string]func() (string, error){
	"mount":    func() (string, error) { return "", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
	"fsopen":   func() (string, error) { _, err := unix.Fsopen("tmpfs", 0); return "", err },
	"unshare":  func() (string, error) { return "", unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS) },
	"io_uring": func() (string, error) { return "", call(unix.SYS_IO_URING_SETUP) },
	"bpf":      func() (string, error) { return "", call(unix.SYS_BPF) },
	"clone": func() (string, error) {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return "", c.Run()
	},
	"clone3":    func() (string, error) { return "", call(unix.SYS_CLONE3) },
	"remount":   func() (string, error) { return "", unix.Mount("", "/etc", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"write etc": func() (string, error) { return "", os.WriteFile("/etc/escaped", nil, 0o644) },
	"ptrace": func() (string, error) {
		pid, _ := strconv.Atoi(os.Getenv(hostPIDEnv))
		return "", unix.PtraceAttach(pid)
	},
	"memory": func() (string, error) {
		_, err := os.OpenFile("/proc/"+os.Getenv(hostPIDEnv)+"/mem", os.O_RDWR, 0)
		return "", err
	},
	"root of the first process": func() (string, error) { return read("/proc/1/root" + os.Getenv(hostPathEnv)) },
	"root of another process": func() (string, error) {
		return read("/proc/" + os.Getenv(hostPIDEnv) + "/root" + os.Getenv(hostPathEnv))
	},
	"program of the first process": func() (string, error) {
		_, err := os.OpenFile("/proc/1/exe", os.O_WRONLY, 0)
		return "", err
	},
	"make device": func() (string, error) {
		return "", unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(1, 3)))
	},
	"make file in dev": func() (string, error) { return "", os.WriteFile("/dev/file", nil, 0o600) },
	"open device":      func() (string, error) { return read("/alloc/device") },
	"use null":         func() (string, error) { return "", os.WriteFile("/dev/null", []byte("x"), 0) },
	"core pattern":     func() (string, error) { return "", os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/x"), 0) },
	"hostname":         func() (string, error) { return "", os.WriteFile("/proc/sys/kernel/hostname", []byte("h"), 0) },
	"timers":           func() (string, error) { return read("/proc/timer_list") },
	"release agent": func() (string, error) {
		found, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
		return strings.Join(found, " "), unix.Mount("cgroup", "/tmp", "cgroup", 0, "memory")
	},
	"chroot": func() (string, error) {
		if err := errors.Join(os.MkdirAll("/tmp/jail", 0o755), unix.Chroot("/tmp/jail")); err != nil {
			return "", err
		}
		for range 30 {
			_ = os.Chdir("..")
		}
		_ = unix.Chroot(".")
		return read(os.Getenv(hostPathEnv))
	},
	"set-user-id program": func() (string, error) {
		b, err := exec.Command("/alloc/setuid", "ids").CombinedOutput()
		return string(b), err
	},
	"ids": func() (string, error) { return fmt.Sprint(os.Getuid(), os.Geteuid()), nil },
	"descriptors": func() (string, error) {
		out := ""
		for fd := range 64 {
			if to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && (strings.HasPrefix(to, "/") && to != "/dev/null" || strings.HasPrefix(to, "socket")) {
				out += to + " "
			}
		}
		return out, nil
	},
	"kill the first process": func() (string, error) { return "", unix.Kill(1, unix.SIGKILL) },
}

func call(number uintptr) error {
	if _, _, e := unix.Syscall(number, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

func read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	b := make([]byte, 64)
	n, err := f.Read(b)
	return string(b[:n]), err
}

// probe runs the probes that the arguments name; each prints a line.
func probe() int {
	for _, name := range os.Args[1:] {
		got, err := probes[name]()
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			got = unix.ErrnoName(errno)
		case err != nil:
			got = err.Error()
		}
		fmt.Printf("%s: %s\n", name, strings.TrimSpace(got))
	}
	return 0
}

// tried starts a task that tries the probes, and returns the result of each.
func tried(t *testing.T, user string, config map[string]any, prepare func(*driver.Task), names ...string) map[string]string {
	t.Helper()
	d := newDriver(t, t.TempDir(), map[string]any{"allow_caps": []any{"all"}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []any{}
	for _, n := range names {
		args = append(args, n)
	}
	c := map[string]any{"command": "/probe", "args": args}
	for k, v := range config {
		c[k] = v
	}
	task := suite.NewTask(t, c)
	task.User, task.Env[probeEnv] = user, "1"
	task.Env[hostPIDEnv] = strconv.Itoa(os.Getpid())
	task.Env[hostPathEnv] = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(task.Env[hostPathEnv], []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{Source: self, Destination: "/probe", ReadOnly: true}}
	if prepare != nil {
		prepare(task)
	}
	out := map[string]string{}
	for line := range strings.Lines(run(t, d, task)) {
		name, result, _ := strings.Cut(line, ":")
		out[name] = strings.TrimSpace(result)
	}
	return out
}

// run runs a task to its end and returns what it has printed.
func run(t *testing.T, d *execdriver.Driver, task *driver.Task) string {
	t.Helper()
	ctx := suite.Context(t)
	if _, err := d.Start(ctx, task); err != nil {
		t.Fatal(err)
	}
	x, err := d.Wait(ctx, task.ID)
	if err != nil || !x.Successful() {
		t.Errorf("exit %+v %v: %s", x, err, suite.LogText(task, "stderr"))
	}
	if err := d.Destroy(ctx, task.ID); err != nil {
		t.Error(err)
	}
	return suite.LogText(task, "stdout")
}
