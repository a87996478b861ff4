package driver

import (
	"maps"
	"slices"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
)

var signals = map[string]syscall.Signal{
	"SIGABRT": syscall.SIGABRT, "SIGALRM": syscall.SIGALRM, "SIGBUS": syscall.SIGBUS,
	"SIGCHLD": syscall.SIGCHLD, "SIGCONT": syscall.SIGCONT, "SIGFPE": syscall.SIGFPE,
	"SIGHUP": syscall.SIGHUP, "SIGILL": syscall.SIGILL, "SIGINT": syscall.SIGINT,
	"SIGIO": syscall.SIGIO, "SIGIOT": syscall.SIGIOT, "SIGKILL": syscall.SIGKILL,
	"SIGPIPE": syscall.SIGPIPE, "SIGPROF": syscall.SIGPROF, "SIGQUIT": syscall.SIGQUIT,
	"SIGSEGV": syscall.SIGSEGV, "SIGSTOP": syscall.SIGSTOP, "SIGSYS": syscall.SIGSYS,
	"SIGTERM": syscall.SIGTERM, "SIGTRAP": syscall.SIGTRAP, "SIGTSTP": syscall.SIGTSTP,
	"SIGTTIN": syscall.SIGTTIN, "SIGTTOU": syscall.SIGTTOU, "SIGURG": syscall.SIGURG,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGWINCH": syscall.SIGWINCH,
	"SIGXCPU": syscall.SIGXCPU, "SIGXFSZ": syscall.SIGXFSZ, "SIGNULL": 0,
}

// ParseSignal turns a name such as "SIGINT" into its signal; SIGNULL is signal 0, which only probes.
func ParseSignal(name string) (syscall.Signal, error) {
	s, ok := signals[name]
	if !ok {
		return 0, fault.New(fault.Invalid, "unknown signal %q", name)
	}
	return s, nil
}

// SignalNames lists the names that ParseSignal takes, sorted.
func SignalNames() []string { return slices.Sorted(maps.Keys(signals)) }
