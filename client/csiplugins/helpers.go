package csiplugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// A file system of FUSE is served by a process, its helper, that the plugin started. It must outlive the plugin's
// task: an update of the plugin would end every mount. So helpers are moved to cgroups of their own, each one to
// one, which the ends of tasks spare, and are ended when nothing of theirs is mounted any more.

const (
	fuseDevice = "/dev/fuse"
	// helperWait bounds the wait for a helper to exit by itself after its mount was removed.
	helperWait = 5 * time.Second
	helperPace = 50 * time.Millisecond
)

// KeepHelpers takes the processes of an instance that serve a mount out of the life of its task, and returns the
// scopes that they are in. There are none when the instance serves the mount itself, or has no cgroup of its own.
func (s *Service) KeepHelpers(ctx context.Context, p *Plugin, at *mounts.Entry) ([]string, error) {
	pid, err := listenerOf(ctx, p.Socket)
	if err != nil {
		return nil, err
	}
	connection := minorOf(at.Dev)
	if connectionsOf(pid).has(connection) {
		return nil, fmt.Errorf("the main process of plugin %s serves the mount at %s: the mount ends with the plugin", p.PluginID, at.Point)
	}
	own := cgroupOf(pid)
	if own == "" || own == cgroupOf(os.Getpid()) {
		return nil, fmt.Errorf("plugin %s has no cgroup: the processes that serve the mount at %s end with the plugin", p.PluginID, at.Point)
	}
	s.helpersMu.Lock()
	defer s.helpersMu.Unlock()
	var scopes []string
	for _, dir := range append([]string{own}, helperScopes(filepath.Dir(own))...) {
		pids := pidsIn(dir)
		if len(pids) == 0 { // what an agent that ended meanwhile could not remove
			_ = cgroups.RemovePath(dir)
		}
		for _, helper := range pids {
			c := connectionsOf(helper)
			if !c.has(connection) && (!c.unknown || dir != own || helper == pid) {
				continue
			}
			scope := dir
			if dir == own {
				if scope, err = moveHelper(own, helper); err != nil {
					return scopes, err
				}
			}
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		return nil, fmt.Errorf("no process of plugin %s is known to serve the mount at %s", p.PluginID, at.Point)
	}
	return scopes, nil
}

// EndHelpers ends the processes of scopes whose mounts were removed. Most exit by themselves. Processes that serve
// other mounts stay.
func (s *Service) EndHelpers(scopes []string) {
	for _, dir := range scopes {
		go s.endHelper(dir)
	}
}

// KillHelpers ends the processes of scopes at once, unless they serve something that is mounted: what they keep of a
// volume that was cut off must not be written any more.
func (s *Service) KillHelpers(scopes []string) {
	for _, dir := range scopes {
		if isScope(dir) && !s.serving(dir) {
			s.killHelper(dir)
		}
	}
}

func (s *Service) killHelper(dir string) bool {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.conf.Log.Warn("end processes that served a mount", "scope", dir, "error", err)
	}
	return err == nil
}

// isScope reports whether a path is that of a scope of helpers.
func isScope(dir string) bool {
	return filepath.IsAbs(dir) && frame.IsHelperName(filepath.Base(dir))
}

func (s *Service) endHelper(dir string) {
	if !isScope(dir) {
		return
	}
	for deadline := time.Now().Add(helperWait); time.Now().Before(deadline); time.Sleep(helperPace) {
		if len(pidsIn(dir)) > 0 {
			continue
		}
		// A process that has ended and is not reaped yet keeps its cgroup.
		if err := cgroups.RemovePath(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if s.serving(dir) {
		return
	}
	s.conf.Log.Warn("end processes that served a mount: they did not end with it", "scope", dir, "processes", pidsIn(dir))
	if !s.killHelper(dir) {
		return
	}
	for deadline := time.Now().Add(helperWait); time.Now().Before(deadline) && cgroups.RemovePath(dir) != nil; time.Sleep(helperPace) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}

// serving reports whether a process of the scope, or of a cgroup that one made in it, serves something that is mounted, or
// may: all of them end together.
func (s *Service) serving(dir string) bool {
	table, err := s.conf.Host.Table()
	if err != nil {
		return true
	}
	for _, pid := range pidsIn(dir) {
		c := connectionsOf(pid)
		if c.unknown || slices.ContainsFunc(table, func(e *mounts.Entry) bool { return strings.HasPrefix(e.Dev, "0:") && c.has(minorOf(e.Dev)) }) {
			return true
		}
	}
	return false
}

// listenerOf is the process that listens on a unix socket.
func listenerOf(ctx context.Context, socket string) (int, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, fmt.Errorf("find the process of the plugin: %w", err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find the process of the plugin: %w", err)
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("find the process of the plugin: %w", err)
	}
	return int(cred.Pid), nil
}

// cgroupOf is the directory of a process's cgroup of version 2; empty when it has none, or the root's.
func cgroupOf(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok || path == "/" {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var st unix.Statfs_t
			if unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
				return filepath.Join(root, path)
			}
		}
	}
	return ""
}

// helperScopes lists the scopes of helpers in a directory.
func helperScopes(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "*"+frame.HelperScope))
	return slices.DeleteFunc(found, func(dir string) bool { return !isScope(dir) })
}

// connections are the FUSE connections that a process serves.
type connections struct {
	ids []uint64
	// unknown is set when the process serves a connection whose number the kernel does not report, as older kernels do.
	unknown bool
}

func (c connections) has(id uint64) bool { return slices.Contains(c.ids, id) }

func connectionsOf(pid int) (out connections) {
	dir := "/proc/" + strconv.Itoa(pid)
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return out
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/fd/" + fd.Name()); err != nil || to != fuseDevice || over(pid, fd.Name()) {
			continue
		}
		info, err := os.ReadFile(dir + "/fdinfo/" + fd.Name())
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(info), "fuse_connection:")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if !ok || err != nil {
			out.unknown = true
			continue
		}
		out.ids = append(out.ids, n)
	}
	return out
}

// over reports whether the connection behind a process's FUSE descriptor has ended. The mount of an ended connection
// is removed and its number may belong to another mount. The kernel reports the end by POLLERR. A connection that
// cannot be queried (before Linux 5.6, or without permission) counts as open.
func over(pid int, fd string) bool {
	number, err := strconv.Atoi(fd)
	if err != nil {
		return false
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(process) }()
	copied, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(copied) }()
	asked := []unix.PollFd{{Fd: int32(copied), Events: unix.POLLIN}}
	n, err := unix.Poll(asked, 0)
	return err == nil && n == 1 && asked[0].Revents&unix.POLLERR != 0
}

// minorOf is the number of a FUSE connection: the minor number of its device.
func minorOf(dev string) uint64 {
	_, minor, _ := strings.Cut(dev, ":")
	n, err := strconv.ParseUint(minor, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pidsIn lists the processes of a cgroup and of the cgroups in it, as far as they can be read.
func pidsIn(dir string) []int {
	pids, _ := cgroups.GetAllPids(dir)
	return pids
}

// moveHelper moves a process, with those that it started, from the plugin's cgroup to a scope of its own.
func moveHelper(from string, pid int) (string, error) {
	scope := filepath.Join(filepath.Dir(from), frame.HelperName(strconv.Itoa(pid), Hash(from, strconv.Itoa(pid))[:frame.HelperHash]))
	if err := os.Mkdir(scope, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make a scope for process %d, which serves a mount: %w", pid, err)
	}
	move := func(pid int) error {
		err := os.WriteFile(filepath.Join(scope, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if errors.Is(err, syscall.ESRCH) {
			return nil // it has ended
		}
		return err
	}
	if err := move(pid); err != nil {
		_ = os.Remove(scope)
		return "", fmt.Errorf("move process %d, which serves a mount, to its own scope: %w", pid, err)
	}
	for _, other := range pidsIn(from) {
		if descends(other, pid) {
			if err := move(other); err != nil {
				return scope, fmt.Errorf("move process %d, which serves a mount, to its own scope: %w", other, err)
			}
		}
	}
	return scope, nil
}

// descends reports whether a process comes from another.
func descends(pid, ancestor int) bool {
	for range 64 {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return false
		}
		text := string(raw)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(f) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(f[1]); err != nil || pid <= 1 {
			return false
		}
		if pid == ancestor {
			return true
		}
	}
	return false
}
