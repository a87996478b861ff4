package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// A command inside the task is run by this program once more, as a child of the supervising process: to execute a file
// may take as long as its file system likes, and neither an agent's orders nor the end of a lease wait for that. The
// process in between is a subreaper, so it can kill all that the command has started; what a command leaves behind when
// it ends by itself belongs to the supervising process then, and ends with the task.

// Descriptors of such a process, behind the streams of the command: the agent's connection, files with the command and
// with the spec of the task, the mount namespace of the task, and its main process.
const (
	commandFD = agentFD + 1 + iota
	specFD
	namespaceFD
	taskFD
)

// commandEnv is the environment of such a process. One thread is stuck while a file does not get executed, so that it
// needs two.
var commandEnv = []string{"GOMAXPROCS=2", commandKey + "=1"}

const commandKey = "NOMAD_SUPERVISE_COMMAND"

func isCommand() bool {
	_, found := syscall.Getenv(commandKey)
	return found
}

// command starts a process that runs a command in the task, and leaves the connection to it.
func (s *supervisor) command(a *agent) {
	namespace := -1
	if !s.ending {
		namespace, _ = syscall.Open("/proc/"+itoa(int64(s.pid))+"/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	if namespace < 0 || !pidfdAlive(s.pidfd) {
		send(a.fd, frame.KindExited, s.exit)
		_ = syscall.Close(namespace)
		return
	}
	defer syscall.Close(namespace)
	if len(a.files) != frame.CommandFiles {
		return
	}
	send(a.fd, frame.KindCommand, nil)
	spec, err := memory(s.spec.Encode())
	if err == nil {
		_, err = syscall.ForkExec("/proc/self/exe", []string{"nomad-supervise"}, &syscall.ProcAttr{
			Env: commandEnv,
			Files: []uintptr{
				uintptr(a.files[1]), uintptr(a.files[2]), uintptr(a.files[3]),
				uintptr(a.fd), uintptr(a.files[0]), uintptr(spec), uintptr(namespace), uintptr(s.pidfd),
			},
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
		})
		_ = syscall.Close(spec)
	}
	if err != nil {
		send(a.fd, frame.KindFailed, failed(true, "start a process for the command: "+err.Error()).Encode())
	}
}

func pidfdAlive(pidfd int) bool {
	_, _, err := syscall.Syscall6(sysPidfdSendSignal, uintptr(pidfd), 0, 0, 0, 0, 0)
	return err == 0
}

// memory makes a file without a name.
func memory(content []byte) (int, error) {
	name := [1]byte{}
	fd, _, e := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), 1 /* MFD_CLOEXEC */, 0)
	if e != 0 {
		return -1, e
	}
	for at := 0; at < len(content); {
		n, err := syscall.Pwrite(int(fd), content[at:], int64(at))
		if err != nil {
			_ = syscall.Close(int(fd))
			return -1, err
		}
		at += n
	}
	return int(fd), nil
}

// readMemory reads such a file.
func readMemory(fd int) []byte {
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Size > frame.BodyMax {
		return nil
	}
	b := make([]byte, st.Size)
	n, _ := syscall.Pread(fd, b, 0)
	return b[:max(n, 0)]
}

// runCommand runs a command; the process ends with it.
func runCommand() {
	for fd := agentFD; fd <= taskFD; fd++ {
		syscall.CloseOnExec(fd)
	}
	var spec frame.Spec
	var c frame.Command
	if spec.Decode(readMemory(specFD)) != nil || c.Decode(readMemory(commandFD)) != nil || len(c.Args) == 0 {
		syscall.Exit(frame.ExitUnasked)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); e != 0 {
		send(agentFD, frame.KindFailed, failed(false, "become a subreaper: "+e.Error()).Encode())
		syscall.Exit(1)
	}
	var killed atomic.Bool
	go superviseCommand(&spec, &c, &killed)
	fds := [1]pollFD{{agentFD, pollIn, 0}}
	for fds[0].revents == 0 {
		poll(fds[:], -1)
	}
	killed.Store(true)
	for round := 0; ; round++ {
		killDescendants()
		pause := int64(10)
		if round > stuckRounds {
			pause = 1000
		}
		poll([]pollFD{{-1, 0, 0}}, pause)
	}
}

// superviseCommand starts the command and ends the process after it: when it is to be killed, after all that it has
// started. The thread that has started it must not end before.
func superviseCommand(spec *frame.Spec, c *frame.Command, killed *atomic.Bool) {
	runtime.LockOSThread()
	pid, f := startCommand(spec, c)
	if f != nil {
		ended := [1]pollFD{{taskFD, pollIn, 0}}
		if poll(ended[:], 0); ended[0].revents != 0 { // which may be the reason
			send(agentFD, frame.KindExited, nil)
			syscall.Exit(1)
		}
		send(agentFD, frame.KindFailed, f.Encode())
		syscall.Exit(1)
	}
	running := frame.Running{TaskID: spec.TaskID, PID: int64(pid), StartedAt: now()}
	send(agentFD, frame.KindRunning, running.Encode())
	closeAll([]int{0, 1, 2})
	var status, ws syscall.WaitStatus
	for ended := false; !ended || killed.Load(); {
		switch got, err := syscall.Wait4(-1, &ws, 0, nil); {
		case err == syscall.ECHILD:
			ended = true
			killed.Store(false)
		case got == pid:
			ended, status = true, ws
		}
	}
	x := frame.Exited{Code: int64(status.ExitStatus()), FinishedAt: now()}
	if status.Signaled() {
		x.Signal = int64(status.Signal())
		x.Code = 128 + x.Signal
	}
	send(agentFD, frame.KindExited, x.Encode())
	syscall.Exit(0)
}

func startCommand(spec *frame.Spec, c *frame.Command) (pid int, f *frame.Failed) {
	v, f := viewOf(namespaceFD)
	if f != nil {
		return 0, f
	}
	attr := syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, Pdeathsig: syscall.SIGKILL}}
	if c.TTY && spec.User {
		if err := syscall.Fchown(0, int(spec.UID), int(spec.GID)); err != nil {
			return 0, failed(true, "give the terminal to the user of the task: "+err.Error())
		}
	}
	var group *cgroup
	if spec.Cgroup != "" {
		fd, err := syscall.Open(spec.Cgroup, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err == nil {
			group = &cgroup{fd: fd}
		} else if !spec.OwnCgroup || needs(spec, spec.Cgroup) {
			return 0, failed(false, "open the cgroup of the task: "+err.Error())
		}
	}
	program := ""
	err := v.in(func() error {
		program = findProgram(commandPaths(spec, c.Args[0]))
		return nil
	})
	if err != nil {
		return 0, failed(true, "enter the mount namespace of the task: "+err.Error())
	}
	if program == "" {
		return 0, failed(false, "command "+c.Args[0]+": not found or not executable")
	}
	pid, f = fork(spec, program, c.Args, &attr, group, v)
	if f != nil && group != nil && spec.OwnCgroup && !needs(spec, spec.Cgroup) { // as the task was started
		pid, f = fork(spec, program, c.Args, &attr, nil, v)
	}
	return pid, f
}

// viewOf is the view of a task by its mount namespace; nil when that is the one of this process.
func viewOf(task int) (*view, *frame.Failed) {
	host, err := openNamespace()
	if err != nil {
		return nil, failed(true, "open the mount namespace: "+err.Error())
	}
	var a, b syscall.Stat_t
	if err := syscall.Fstat(host, &a); err != nil {
		return nil, failed(true, "open the mount namespace: "+err.Error())
	}
	if err := syscall.Fstat(task, &b); err != nil {
		return nil, failed(true, "open the mount namespace of the task: "+err.Error())
	}
	if a.Ino == b.Ino && a.Dev == b.Dev {
		_ = syscall.Close(host)
		return nil, nil
	}
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil { // else this thread cannot change its namespace
		return nil, failed(true, "leave the working directory of the other threads: "+err.Error())
	}
	return &view{host: host, task: task}, nil
}

// commandPaths lists where a program may be: in the PATH of the task, unless its name has a slash.
func commandPaths(spec *frame.Spec, name string) (paths []string) {
	for i := range len(name) {
		if name[i] == '/' {
			if name[0] != '/' {
				name = spec.Dir + "/" + name
			}
			return []string{name}
		}
	}
	const key = "PATH="
	path := frame.DefaultPath
	for _, v := range spec.Env {
		if len(v) > len(key) && v[:len(key)] == key {
			path = v[len(key):]
		}
	}
	for start := 0; start <= len(path); {
		end := start
		for end < len(path) && path[end] != ':' {
			end++
		}
		if end > start && path[start] == '/' {
			paths = append(paths, path[start:end]+"/"+name)
		}
		start = end + 1
	}
	return paths
}
