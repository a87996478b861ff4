package isolate

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Asked reports whether this process was started to isolate a task.
func Asked() bool {
	_, found := syscall.Getenv(modeKey)
	return found
}

// Run does what this process was started for; it does not return. The calling goroutine is that of main.
func Run() {
	runtime.LockOSThread() // rights and filters are those of a thread, and the thread that executes the task has them
	syscall.CloseOnExec(replyFD)
	_ = prctl(prSetPdeathsig, uintptr(syscall.SIGKILL), 0)
	var spec frame.Spec
	kind, ok := readSpec(&spec)
	var f *frame.Failed
	switch {
	case !ok:
		syscall.Exit(frame.ExitUnasked)
	case kind == frame.KindInit:
		f = first(&spec)
	case kind == frame.KindEnter:
		if f = makeRoot(&spec); f == nil {
			f = become(&spec)
		}
	default:
		f = become(&spec)
	}
	answer(frame.KindFailed, f.Encode())
	syscall.Exit(1)
}

func readSpec(spec *frame.Spec) (frame.Kind, bool) {
	var head [frame.HeaderSize]byte
	if !readFull(replyFD, head[:]) {
		return 0, false
	}
	kind, n, err := frame.Header(head[:])
	if err != nil || kind != frame.KindInit && kind != frame.KindEnter && kind != frame.KindJoin {
		return 0, false
	}
	body := make([]byte, n)
	return kind, readFull(replyFD, body) && spec.Decode(body) == nil
}

func answer(kind frame.Kind, body []byte) {
	_, _ = syscall.SendmsgN(replyFD, frame.Wrap(kind, body), nil, nil, syscall.MSG_NOSIGNAL)
}

// become drops the rights that the task does not have and executes the program of the spec, as the task sees the files.
func become(spec *frame.Spec) *frame.Failed {
	if f := restrict(spec); f != nil {
		return f
	}
	if err := syscall.Chdir(spec.Dir); err != nil {
		return failed(false, "working directory (\"work_dir\") "+spec.Dir+" in the root directory of the task: "+err.Error())
	}
	path := find(spec.Programs)
	if path == "" {
		return failed(false, "command "+spec.Args[0]+": not found or not executable in the root directory of the task")
	}
	err := syscall.Exec(path, spec.Args, spec.Env)
	again := err == syscall.EAGAIN || err == syscall.ENOMEM || err == syscall.ETXTBSY
	return failed(again, "execute "+path+": "+err.Error())
}

func find(paths []string) string {
	var st syscall.Stat_t
	for _, p := range paths {
		if syscall.Stat(p, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Mode&0o111 != 0 {
			return p
		}
	}
	return ""
}

// prSetDumpable guards the memory and the files of this process from others of its user.
const prSetDumpable = 4

// first is the first process of a process namespace. All processes that lose their parent become its children, and the
// kernel reaps them because SIGCHLD is ignored.
func first(spec *frame.Spec) *frame.Failed {
	for signal := uintptr(1); signal <= 64; signal++ {
		ignore(syscall.Signal(signal))
	}
	if f := restrict(spec); f != nil {
		return f
	}
	if err := prctl(prSetDumpable, 0, 0); err != nil {
		return failed(false, "guard the first process: "+err.Error())
	}
	answer(ready, nil)
	var b [1]byte
	for readFull(replyFD, b[:]) {
	}
	syscall.Exit(0) // the supervising process has ended
	return nil
}

// ignore ignores a signal, unless the runtime of this program needs it.
func ignore(signal syscall.Signal) {
	switch signal {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGURG:
		return
	}
	action := [4]uintptr{1} // SIG_IGN
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}
