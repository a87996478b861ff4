package isolate

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	program = "/proc/self/exe"
	modeKey = "NOMAD_ISOLATE"
	// replyFD is the connection of an isolating process to the supervising one.
	replyFD = 3
)

// namespaces are those of a thread: their names below /proc/thread-self/ns and the flags that make them.
var namespaces = [...]struct {
	name string
	flag int
}{{"pid", syscall.CLONE_NEWPID}, {"ipc", syscall.CLONE_NEWIPC}, {"uts", syscall.CLONE_NEWUTS}, {"mnt", syscall.CLONE_NEWNS}}

// Start starts the task of the spec with the streams and cgroup of attr, and returns its pid. The calling goroutine must be
// locked to its thread, and is in the host's namespaces again when Start returns. After a failure nothing runs.
func Start(spec *frame.Spec, attr *syscall.ProcAttr) (pid int, f *frame.Failed) {
	home, f := openNamespaces()
	if f != nil {
		return 0, f
	}
	defer home.close()
	flags := syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS
	if spec.Isolation.IPC {
		flags |= syscall.CLONE_NEWIPC
	}
	if err := syscall.Unshare(flags); err != nil {
		return 0, failed(false, "make namespaces: "+err.Error())
	}
	first := 0
	if spec.Isolation.PID {
		first, f = startFirst(spec, attr)
	}
	if f == nil {
		pid, f = home.fork("enter", frame.KindEnter, spec, attr)
	} else {
		_ = home.enter()
	}
	if f != nil {
		end(first)
	}
	return pid, f
}

// Join starts a command inside the task of a process descriptor, as Start starts the task. The thread must not share its
// working directory with others.
func Join(task int, spec *frame.Spec, attr *syscall.ProcAttr) (pid int, f *frame.Failed) {
	home, f := openNamespaces()
	if f != nil {
		return 0, f
	}
	defer home.close()
	if err := setns(task, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWIPC|syscall.CLONE_NEWUTS); err != nil {
		return 0, failed(true, "enter the namespaces of the task: "+err.Error())
	}
	return home.fork("join", frame.KindJoin, spec, attr)
}

// fork starts a process in the namespaces of the thread, which then leaves them, and returns when the process has become
// what it is for. After a failure it is not there.
func (h *home) fork(mode string, kind frame.Kind, spec *frame.Spec, attr *syscall.ProcAttr) (int, *frame.Failed) {
	pid, fd, f := fork(mode, kind, spec, attr)
	if back := h.enter(); f == nil {
		f = back
	}
	if f == nil {
		f = reply(fd)
	}
	_ = syscall.Close(fd)
	if f != nil {
		end(pid)
		return 0, f
	}
	return pid, nil
}

// startFirst starts the first process of a process namespace, which the thread's next children belong to.
func startFirst(spec *frame.Spec, attr *syscall.ProcAttr) (int, *frame.Failed) {
	own, sys := *attr, *attr.Sys
	own.Files = []uintptr{attr.Files[0], attr.Files[0], attr.Files[0]}
	sys.PidFD, sys.Cloneflags = nil, syscall.CLONE_NEWPID
	own.Sys = &sys
	// The connection stays open for as long as this process lives.
	first, fd, f := fork("init", frame.KindInit, spec, &own)
	if f == nil {
		f = reply(fd)
	}
	if f == nil {
		f = enterNamespace("/proc/"+itoa(first)+"/ns/pid", syscall.CLONE_NEWPID)
	}
	if f != nil {
		end(first)
		return 0, f
	}
	return first, nil
}

// fork starts this program in a mode and hands it the spec.
func fork(mode string, kind frame.Kind, spec *frame.Spec, attr *syscall.ProcAttr) (pid, fd int, f *frame.Failed) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, -1, failed(true, "make a socket pair: "+err.Error())
	}
	own, sys := *attr, *attr.Sys
	own.Sys, sys.Pdeathsig = &sys, 0 // a parent outside of its process namespace looks like none; the process sets it itself
	own.Dir, own.Env = "", append(mark(spec.Env), modeKey+"="+mode, "GOMAXPROCS=1")
	own.Files = append(append([]uintptr{}, attr.Files...), uintptr(fds[1]))
	pid, err = syscall.ForkExec(program, []string{"nomad-isolate"}, &own)
	_ = syscall.Close(fds[1])
	if err != nil {
		_ = syscall.Close(fds[0])
		return 0, -1, failed(err == syscall.EAGAIN || err == syscall.ENOMEM, "start the isolating process: "+err.Error())
	}
	for rest := frame.Wrap(kind, spec.Encode()); len(rest) > 0; {
		n, err := syscall.SendmsgN(fds[0], rest, nil, nil, syscall.MSG_NOSIGNAL)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break // it has ended, and may have replied why
		}
		rest = rest[n:]
	}
	return pid, fds[0], nil
}

// mark is the part of a task's environment by which its processes are found.
func mark(env []string) (out []string) {
	const key = "NOMAD_ATTEMPT_MARK="
	for _, v := range env {
		if len(v) > len(key) && v[:len(key)] == key {
			out = append(out, v)
		}
	}
	return out
}

// ready is the reply of the first process.
const ready = frame.Kind('+')

// reply reads why a process has failed; nil means that it has not.
func reply(fd int) *frame.Failed {
	var head [frame.HeaderSize]byte
	if !readFull(fd, head[:]) {
		return nil
	}
	kind, n, err := frame.Header(head[:])
	if err == nil && kind == ready {
		return nil
	}
	body := make([]byte, n)
	f := &frame.Failed{}
	if err != nil || kind != frame.KindFailed || !readFull(fd, body) || f.Decode(body) != nil {
		return failed(true, "the isolating process does not respond as it should")
	}
	return f
}

func readFull(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// end kills a child and reaps it.
func end(pid int) {
	if pid <= 0 {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// home are the namespaces of a thread before it left them.
type home [len(namespaces)]int

func openNamespaces() (h home, f *frame.Failed) {
	for i := range h {
		h[i] = -1
	}
	for i, n := range namespaces {
		var err error
		if h[i], err = syscall.Open("/proc/thread-self/ns/"+n.name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
			h.close()
			return h, failed(true, "open the "+n.name+" namespace: "+err.Error())
		}
	}
	return h, nil
}

func (h *home) enter() (f *frame.Failed) {
	for i, n := range namespaces {
		if err := setns(h[i], n.flag); err != nil {
			f = failed(true, "leave the "+n.name+" namespace of the task: "+err.Error())
		}
	}
	return f
}

func (h *home) close() {
	for _, fd := range h {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}

func enterNamespace(path string, flag int) *frame.Failed {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = setns(fd, flag)
		_ = syscall.Close(fd)
	}
	if err != nil {
		return failed(true, "enter the namespaces of the task: "+err.Error())
	}
	return nil
}

func setns(fd, flag int) error {
	if _, _, e := syscall.RawSyscall(sysSetns, uintptr(fd), uintptr(flag), 0); e != 0 {
		return e
	}
	return nil
}

func failed(again bool, text string) *frame.Failed { return &frame.Failed{Again: again, Text: text} }

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func prctl(option, a, b uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
