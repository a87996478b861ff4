package supervise

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markNames are the variables of a task's environment that its processes hand on to all that they start, and that tell
// whose they are when they have left cgroup and session.
var markNames = []string{"NOMAD_ALLOC_ID=", "NOMAD_TASK_NAME="}

// marksOf picks them from an environment; without all of them there are none.
func marksOf(env []string) (marks []string) {
	for _, name := range markNames {
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name) })
		if i < 0 {
			return nil
		}
		marks = append(marks, env[i])
	}
	return marks
}

// environMax bounds what is read of one process.
const environMax = 1 << 20

func environ(pid int) []byte {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, environMax))
	return b
}

// orphans are the processes that carry the marks of a task whose supervising process is gone. They began after it did.
func orphans(id Ident) (out []int) {
	if len(id.Marks) == 0 || id.Boot == "" || id.Boot != bootID() {
		return nil
	}
	for _, p := range processes() {
		if p.ticks < id.TaskTicks || p.state == 'Z' || p.state == 'X' {
			continue
		}
		env := append([]byte{0}, environ(p.pid)...)
		marked := func(m string) bool { return bytes.Contains(env, []byte("\x00"+m+"\x00")) }
		if marked(id.Marks[0]) && !slices.ContainsFunc(id.Marks, func(m string) bool { return !marked(m) }) && !isHelper(p.pid) {
			out = append(out, p.pid)
		}
	}
	return out
}

// Rounds of killing orphans, which may start others meanwhile.
const (
	orphanRounds = 20
	orphanPause  = 5 * time.Millisecond
)

func killOrphans(id Ident) {
	for range orphanRounds {
		left := orphans(id)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(orphanPause)
	}
}
