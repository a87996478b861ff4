package csiplugins_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// TestMain plays the processes of a plugin when it is asked to.
func TestMain(m *testing.M) {
	switch os.Getenv("PLAY") {
	case "plugin":
		playPlugin()
	case "helper":
		playHelper(os.Getenv("AT"))
	default:
		os.Exit(m.Run())
	}
}

// playPlugin listens on its socket, starts a helper that is not its child any more, and waits.
func playPlugin() {
	l, err := net.Listen("unix", os.Getenv("SOCKET"))
	if err != nil {
		fail(err)
	}
	c := exec.Command("/bin/sh", "-c", `"$0" & exit 0`, "/proc/self/exe")
	self, err := os.Executable()
	if err != nil {
		fail(err)
	}
	c.Args[3] = self
	c.Env = append(os.Environ(), "PLAY=helper")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fail(err)
	}
	for {
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
	}
}

// playHelper serves an empty file system until it is unmounted, and says something now and then.
func playHelper(at string) {
	fd, err := unix.Open(fuse, unix.O_RDWR, 0)
	if err != nil {
		fail(err)
	}
	if err := unix.Mount("helper", at, "fuse.helper", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		fail(err)
	}
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			fmt.Println("still here")
		}
	}()
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR || err == unix.ENOENT:
			continue
		case err != nil: // unmounted
			if os.Getenv("STAYS") != "" {
				select {}
			}
			os.Exit(0)
		}
		_, _ = unix.Write(fd, answer(buf[:n]))
	}
}

// answer is a reply of the FUSE protocol: 26 begins it, 3 asks for attributes, 17 for the file system's.
func answer(req []byte) []byte {
	le := binary.LittleEndian
	var body []byte
	switch le.Uint32(req[4:]) {
	case 26:
		body = make([]byte, 64)
		le.PutUint32(body, 7)
		le.PutUint32(body[4:], 31)
		le.PutUint32(body[20:], 1<<16)
	case 3:
		body = make([]byte, 104)
		le.PutUint64(body[16:], 1)
		le.PutUint32(body[16+60:], 0o40755)
		le.PutUint32(body[16+64:], 2)
	case 17:
		body = make([]byte, 80)
		le.PutUint32(body[40:], 4096)
	default:
		out := make([]byte, 16)
		le.PutUint32(out, 16)
		le.PutUint32(out[4:], uint32(0xffffffda)) // ENOSYS
		copy(out[8:], req[8:16])
		return out
	}
	out := make([]byte, 16, 16+len(body))
	le.PutUint32(out, uint32(16+len(body)))
	copy(out[8:], req[8:16])
	return append(out, body...)
}

const fuse = "/dev/fuse"

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

// nothing is a bucket that forgets.
type nothing struct{}

func (nothing) Get(string) ([]byte, error)      { return nil, nil }
func (nothing) Put(string, []byte) error        { return nil }
func (nothing) Delete(string) error             { return nil }
func (nothing) All() (map[string][]byte, error) { return nil, nil }

// within waits until a fact holds.
func within(t *testing.T, limit time.Duration, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func minorOf(t *testing.T, dev string) string {
	t.Helper()
	_, minor, ok := strings.Cut(dev, ":")
	if !ok {
		t.Fatalf("device %q", dev)
	}
	return minor
}

// another mounts file systems of FUSE until one has the number, which the kernel gives to the next mount that comes.
func another(t *testing.T, minor string) {
	t.Helper()
	for range 20 {
		at := t.TempDir()
		fd, err := unix.Open(fuse, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH); _ = unix.Close(fd) })
		if err := unix.Mount("another", at, "fuse.another", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
			t.Fatal(err)
		}
		if e, err := mounts.At(at); err == nil && e != nil && minorOf(t, e.Dev) == minor {
			return
		}
	}
	t.Logf("no other mount got the number %s: somebody else has it", minor)
}

func helperOf(scope string) int {
	raw, _ := os.ReadFile(filepath.Join(scope, "cgroup.procs"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}

func lives(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) == nil }

// A mount that a process of the plugin serves lives on when the plugin's task is killed, and its process ends when
// the mount is gone, of itself or not.
func TestMountsServedByAProcessOutliveThePluginsTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat(fuse); err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	for name, stays := range map[string]string{"ends": "", "stays": "1", "is killed": "1", "in a cgroup of its own": ""} {
		t.Run(name, func(t *testing.T) {
			task := "a/plugin/" + strings.ReplaceAll(name, " ", "-")
			dir, err := os.MkdirTemp("", "fh")
			if err != nil {
				t.Fatal(err)
			}
			at, socket := filepath.Join(dir, "m"), filepath.Join(dir, "s")
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if m, err := mounts.At(at); err == nil && m != nil {
					_ = mounts.Detach(m)
				}
				_ = os.RemoveAll(dir)
			}()
			d := rawexec.New(rawexec.Config{Enabled: true, StateDir: filepath.Join(dir, "state")}, hclog.NewNullLogger())
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Start(t.Context(), &driver.Task{
				ID: task, Name: "plugin", Dir: dir, Config: map[string]any{"command": self},
				Env: map[string]string{"PLAY": "plugin", "SOCKET": socket, "AT": at, "STAYS": stays, "PATH": os.Getenv("PATH")}, Logs: driver.Logs{Dir: dir},
			})
			if err != nil {
				t.Fatal(err)
			}
			within(t, 30*time.Second, "mounted", func() bool {
				on, _ := mounts.IsPoint(at)
				return on && mounts.System{}.Statfs(at) == nil
			})
			entry, err := mounts.At(at)
			if err != nil {
				t.Fatal(err)
			}
			s, err := csiplugins.New(csiplugins.Config{Root: dir, Registry: nothing{}})
			if err != nil {
				t.Fatal(err)
			}
			p := &csiplugins.Plugin{PluginID: "p", Socket: socket}
			scopes, err := s.KeepHelpers(t.Context(), p, entry)
			if err != nil || len(scopes) != 1 {
				t.Skipf("the process cannot be kept here: %v", err)
			}
			if again, err := s.KeepHelpers(t.Context(), p, entry); err != nil || len(again) != 1 || again[0] != scopes[0] {
				t.Errorf("asked again: %v, %v", again, err)
			}
			helper := helperOf(scopes[0])
			if name == "in a cgroup of its own" { // it may serve more mounts from there
				inner := filepath.Join(scopes[0], "inner")
				if err := os.Mkdir(inner, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(strconv.Itoa(helper)), 0); err != nil {
					t.Fatal(err)
				}
				if again, err := s.KeepHelpers(t.Context(), p, entry); err != nil || len(again) != 1 || again[0] != scopes[0] {
					t.Errorf("asked again: %v, %v", again, err)
				}
			}

			if err := d.Stop(t.Context(), task, "SIGKILL", 0); err != nil {
				t.Fatal(err)
			}
			if err := d.Destroy(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			if !lives(helper) || (mounts.System{}).Statfs(at) != nil {
				t.Fatal("the mount ended with the plugin")
			}
			time.Sleep(100 * time.Millisecond) // it writes meanwhile to pipes of the task
			if !lives(helper) {
				t.Fatal("the process ended when it wrote")
			}

			s.EndHelpers(scopes) // an unmount that is refused leaves it
			s.KillHelpers(scopes)
			time.Sleep(100 * time.Millisecond)
			if !lives(helper) {
				t.Fatal("the process was ended under its mount")
			}
			if err := mounts.Unmount(at); err != nil {
				t.Fatal(err)
			}
			if name == "stays" { // its number is that of another mount now
				another(t, minorOf(t, entry.Dev))
			}
			s.EndHelpers(scopes)
			limit := 30 * time.Second
			if name == "is killed" {
				limit = 4 * time.Second // it would end by itself after 5
				s.KillHelpers(scopes)
			}
			within(t, limit, "the process has ended", func() bool { return !lives(helper) })
			within(t, 30*time.Second, "its scope is gone", func() bool { _, err := os.Stat(scopes[0]); return err != nil })
		})
	}
}
