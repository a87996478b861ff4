package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// markName is the variable of a task's environment that its processes pass to all that they start. It identifies their
// task when they have left cgroup and session. Its value is drawn for each attempt: no process can know another's
// before it runs, so that no job can lend it to processes that are not its own.
const markName = "NOMAD_ATTEMPT_MARK="

const markBytes = 16

func newMark() string {
	var b [markBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return markName + hex.EncodeToString(b[:])
}

func isMark(text string) bool {
	value, ok := strings.CutPrefix(text, markName)
	b, err := hex.DecodeString(value)
	return ok && err == nil && len(b) == markBytes
}

// marked is the environment with the mark, and no other one.
func marked(env []string, mark string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, markName) })
	return append(out, mark)
}

// environMax bounds what is read of one process.
const environMax = 1 << 20

// environ reads the environment of a process that has not ended.
func environ(p process) []byte {
	dir := "/proc/" + strconv.Itoa(p.pid)
	if p.state == 'Z' { // its first thread has ended
		for _, t := range threads(p.pid) {
			dir += "/task/" + strconv.Itoa(t.pid)
			break
		}
	}
	f, err := os.Open(dir + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, environMax))
	return b
}

// orphans are the processes that carry the mark of a task whose supervising process has ended. They began after it did.
// Those that belong to another task now are left to that one.
func orphans(id Ident) (out []process) {
	if !isMark(id.Mark) || id.Boot == "" || id.Boot != bootID() {
		return nil
	}
	line := []byte("\x00" + id.Mark + "\x00")
	for _, p := range processes() {
		if p.ticks < id.TaskTicks {
			continue
		}
		env := append([]byte{0}, environ(p)...)
		if bytes.Contains(env, line) && !isHelper(p.pid) && !inOthersCgroup(id, p.pid) && !supervised(p) {
			out = append(out, p)
		}
	}
	return out
}

// inOthersCgroup reports whether a process is in the cgroup of another task, next to this task's.
func inOthersCgroup(id Ident, pid int) bool {
	if id.Cgroup == "" {
		return false
	}
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for _, dir := range frame.Unified(string(raw)) {
		rest, beside := strings.CutPrefix(dir, filepath.Dir(id.Cgroup)+"/")
		first, _, _ := strings.Cut(rest, "/")
		if beside && first != filepath.Base(id.Cgroup) && strings.HasSuffix(first, filepath.Ext(id.Cgroup)) {
			return true
		}
	}
	return false
}

// generations bounds how far up the tree of processes is looked.
const generations = 4096

// supervised reports whether a process descends from a supervising process: it has its own end.
func supervised(p process) bool {
	for range generations {
		if p.parent <= 1 {
			return false
		}
		if isSupervising(p.parent) {
			return true
		}
		var ok bool
		if p, ok = stat(p.parent); !ok {
			return false
		}
	}
	return false
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
		for _, p := range left {
			_ = send(p.pid, p.ticks, syscall.SIGKILL)
		}
		time.Sleep(orphanPause)
	}
}
