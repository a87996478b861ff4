package escape

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// processes are those that do not want to end.
var processes = []attack{
	{"all signals are ignored", func(ground) {
		for n := range 65 {
			signal.Ignore(syscall.Signal(n))
		}
	}},
	{"daemons in sessions of their own", func(ground) {
		for range 8 {
			shell(`trap "" TERM INT HUP; (setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 1000; done' &)`)
		}
	}},
	{"processes without a parent", func(ground) {
		for range 8 {
			shell(`(trap "" TERM INT; sleep 1000 &)`)
		}
	}},
	{"each process begins the next and ends", func(g ground) {
		script := g.own + "/local/next"
		_ = os.WriteFile(script, []byte("#!/bin/sh\nsleep 0.005\n\"$0\" &\n"), 0o777)
		shell(script)
	}},
	{"each in a session of its own", func(g ground) {
		script := g.own + "/local/next-session"
		_ = os.WriteFile(script, []byte("#!/bin/sh\nsleep 0.005\nsetsid \"$0\" &\n"), 0o777)
		shell(script)
	}},
	{"the supervising process is stopped and killed", func(ground) {
		for range time.Tick(10 * time.Millisecond) {
			_ = syscall.Kill(os.Getppid(), syscall.SIGSTOP)
			_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		}
	}},
	{"stopped processes", func(ground) {
		for range 4 {
			shell(`(sh -c 'kill -STOP $$' &)`)
		}
	}},
	{"zombies", func(ground) {
		for range 50 {
			_ = exec.Command("/bin/true").Start()
		}
	}},
	{"more output than the log takes", func(ground) {
		block := make([]byte, 64<<10)
		for range time.Tick(5 * time.Millisecond) {
			_, _ = os.Stdout.Write(block)
		}
	}},
	{"a working directory that is gone", func(g ground) {
		shell(`cd "$NOMAD_TASK_DIR" && mkdir gone && cd gone && rmdir ../gone && (sleep 1000 &)`)
	}},
}

func shell(script string) {
	cmd := exec.Command("/bin/sh", "-c", script)
	_ = cmd.Run()
}
