package escape

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// proc are the ways through /proc, namespaces and inherited descriptors.
var proc = []attack{
	{"links into /proc", func(g ground) {
		agent := fmt.Sprintf("/proc/%d/", g.pid)
		for name, target := range map[string]string{
			"self-root": "/proc/self/root", "self-fd": "/proc/self/fd", "thread": "/proc/thread-self/root" + g.victim, "init-cwd": "/proc/1/cwd",
			"agent-root": agent + "root", "agent-fd": agent + "fd", "agent-mem": agent + "mem", "agent-environ": agent + "environ", "kcore": "/proc/kcore",
			"sysrq": "/proc/sysrq-trigger", "magic": "/proc/self/root" + g.victim + "/secret",
		} {
			_ = os.Symlink(target, g.sharedFile("proc-"+name))
		}
		_ = os.Symlink("/proc/self/root"+g.victim+"/secret", g.log("web", "stdout", 3))
	}},
	{"descriptors of root's processes", func(g ground) {
		for n := range 64 {
			_ = os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", g.pid, n), g.sharedFile(fmt.Sprint("proc-fd-", n)))
		}
		for range time.Tick(50 * time.Millisecond) {
			for _, pid := range rootProcesses() {
				for _, name := range []string{"environ", "mem", "maps", "fd", "root/root", "cwd", "task/" + strconv.Itoa(pid) + "/fd"} {
					f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
					if err != nil {
						continue
					}
					var b [16]byte
					if _, err := f.Read(b[:]); err == nil && ofRoot(pid) {
						g.escaped("/proc/%d/%s of root was read", pid, name)
					}
					if list, err := f.Readdirnames(1); err == nil && len(list) > 0 && ofRoot(pid) {
						g.escaped("/proc/%d/%s of root was listed", pid, name)
					}
					_ = f.Close()
				}
			}
		}
	}},
	{"signals and traces of root's processes", func(g ground) {
		runtime.LockOSThread()
		for range time.Tick(100 * time.Millisecond) {
			for _, pid := range rootProcesses() {
				if err := syscall.Kill(pid, 0); err == nil && ofRoot(pid) {
					g.escaped("process %d of root takes signals", pid)
				}
				if err := unix.PtraceSeize(pid); err == nil && ofRoot(pid) {
					g.escaped("process %d of root is traced", pid)
				}
				if fd, err := unix.PidfdOpen(pid, 0); err == nil {
					for n := range 16 {
						if got, err := unix.PidfdGetfd(fd, n, 0); err == nil && ofRoot(pid) {
							g.escaped("descriptor %d of process %d of root", n, pid)
							_ = unix.Close(got)
						}
					}
					_ = unix.Close(fd)
				}
			}
		}
	}},
	{"what the agent keeps for itself", func(g ground) {
		for _, name := range []string{"client/state.db", "client/secret-id", "client/raw_exec", "server", "server/raft", "alloc", "client"} {
			_, err := os.ReadFile(filepath.Join(g.data, name))
			g.refused(err, "%s was read", name)
			_, err = os.ReadDir(filepath.Join(g.data, name))
			g.refused(err, "%s was listed", name)
		}
		g.refused(os.Rename(g.alloc, g.alloc+".x"), "the allocation was moved")
		g.refused(os.Chmod(g.alloc, 0o777), "the mode of the allocation was changed")
		g.refused(os.Chmod(g.logs, 0o777), "the mode of the logs was changed")
		g.refused(os.Chown(g.victim+"/secret", 65534, 65534), "a file of root has another owner")
	}},
	{"sockets of the supervising processes", func(g ground) {
		for range time.Tick(100 * time.Millisecond) {
			body, _ := os.ReadFile("/proc/net/unix")
			for line := range strings.Lines(string(body)) {
				fields := strings.Fields(line)
				if len(fields) < 8 || !strings.HasSuffix(fields[7], ".sock") {
					continue
				}
				for n := range 16 {
					fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
					if err != nil {
						continue
					}
					at := fmt.Sprintf("%s/client/raw_exec/%x/%s", g.data, n, fields[7])
					if len(at) < 108 {
						g.refused(unix.Connect(fd, &unix.SockaddrUnix{Name: at}), "the socket %s answers", fields[7])
					}
					_ = unix.Close(fd)
				}
			}
		}
	}},
	{"namespaces of its own", func(g ground) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), kindVar+"=inside")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWCGROUP,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		_ = cmd.Run()
	}},
	{"cgroups of others", func(g ground) {
		own, _ := os.ReadFile("/proc/self/cgroup")
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/pids"} {
			for _, dir := range append([]string{root, root + "/nomad.slice"}, below(root, string(own))...) {
				g.refused(os.Mkdir(dir+"/hostile", 0o755), "a cgroup was made in %s", dir)
				for _, name := range []string{"cgroup.procs", "cgroup.kill", "cgroup.freeze", "freezer.state", "cgroup.subtree_control"} {
					g.refused(os.WriteFile(dir+"/"+name, []byte("0"), 0), "%s/%s was written", dir, name)
				}
			}
		}
	}},
}

// below are the directories of the process's own cgroups in a hierarchy.
func below(root, own string) (dirs []string) {
	for line := range strings.Lines(own) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && parts[2] != "/" {
			dirs = append(dirs, filepath.Join(root, parts[2]))
		}
	}
	return dirs
}

// ofRoot reports whether a process is root's now: one that was may have become the task of somebody else since.
func ofRoot(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(status), "Uid:\t0\t0")
}

func rootProcesses() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat("/proc/"+e.Name(), &st) == nil && st.Uid == 0 && pid != 2 {
			pids = append(pids, pid)
		}
	}
	return pids[:min(len(pids), 200)]
}

// inherited looks at the descriptors that the task was born with.
func inherited(g ground) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		fd, _ := strconv.Atoi(e.Name())
		if err != nil || fd < 3 || strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/proc/") || strings.HasPrefix(to, "/sys/fs/cgroup/") {
			continue
		}
		g.escaped("descriptor %d is %s", fd, to)
	}
}

// insideNamespaces is root of nothing but its own namespaces, and mounts things over what the agent uses.
func insideNamespaces(g ground) {
	_ = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "")
	for _, at := range []string{filepath.Join(g.web, "local"), g.sharedFile("."), g.logs} {
		_ = unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m")
		_ = unix.Mount(g.victim, at, "", unix.MS_BIND|unix.MS_REC, "")
		_ = unix.Mount("proc", at, "proc", 0, "")
	}
	_, err := os.ReadFile(g.victim + "/secret")
	g.refused(err, "a file of root was read in namespaces")
	g.refused(unix.Mknod(g.sharedFile("device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))), "a device was made in namespaces")
	g.refused(os.Chown(filepath.Join(g.own, "local"), 1, 1), "a directory was given away in namespaces")
	_ = unix.Setgid(0)
	_ = unix.Setuid(0)
	for range time.Tick(time.Hour) {
		_ = unix.Access(g.victim, unix.R_OK)
	}
}
