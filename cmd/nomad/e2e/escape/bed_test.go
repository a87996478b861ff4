package escape

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// canary is what files hold that only root may read.
const canary = "CANARY-of-root"

// bed is an agent, what is to be left alone, and the allocations of the hostile tasks.
type bed struct {
	*kit.Agent
	t               *testing.T
	victim, reports string
	// other is an allocation of somebody else.
	other string
}

func newBed(t *testing.T) *bed {
	a := kit.Start(t)
	b := &bed{Agent: a, t: t, victim: a.Dir + "/victim", reports: a.Dir + "/reports"}
	b.must(os.Chmod(a.Dir, 0o711))
	b.must(os.Mkdir(b.reports, 0o700))
	b.must(os.Chmod(b.reports, 0o777|fs.ModeSticky))
	b.must(os.Mkdir(b.victim, 0o755))
	b.must(os.Mkdir(b.victim+"/dir", 0o700))
	for name, mode := range map[string]fs.FileMode{"secret": 0o600, "dir/file": 0o600, "open": 0o644} {
		text := canary
		if name == "open" {
			text = "for all"
		}
		b.must(os.WriteFile(filepath.Join(b.victim, name), []byte(text), mode))
	}
	b.program()
	b.Register(kit.ShellJob("other", "echo hello; exec sleep 1000"))
	b.other = filepath.Join(a.Dir, "data", "alloc", a.Running("other", 1).ID)
	for _, dir := range []string{"alloc/data", "alloc/logs", "main/local", "main/secrets"} {
		b.must(os.WriteFile(filepath.Join(b.other, dir, "kept"), []byte(canary), 0o600))
	}
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// program puts this binary where nobody can run it.
func (b *bed) program() {
	self, err := os.Open("/proc/self/exe")
	b.must(err)
	defer self.Close()
	to, err := os.OpenFile(b.Dir+"/hostile", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	b.must(err)
	_, err = io.Copy(to, self)
	b.must(err)
	b.must(to.Close())
}

const killTimeout = time.Second

// job is a hostile task beside one that ends and is started again all the time.
func (b *bed) job(kind string) *api.Job {
	ptr := func(n int) *int { return &n }
	j := kit.ShellJob(kind, "echo up; echo up >&2; sleep 0.3; exit 1")
	g := j.TaskGroups[0]
	interval, zero, mode, timeout, wait, constant, unlimited := 24*time.Hour, time.Duration(0), "delay", killTimeout, 5*time.Second, "constant", true
	g.RestartPolicy = &api.RestartPolicy{Attempts: ptr(1 << 16), Interval: &interval, Delay: &zero, Mode: &mode}
	g.ReschedulePolicy = &api.ReschedulePolicy{Unlimited: &unlimited, Delay: &wait, DelayFunction: &constant}
	web := g.Tasks[0]
	web.Name, web.User, web.KillTimeout = "web", "nobody", &timeout
	web.LogConfig = &api.LogConfig{MaxFiles: ptr(3), MaxFileSizeMB: ptr(1)}
	dests := []string{"local/f", "secrets/s", "tmp/s"}
	switch kind {
	case "templates":
		dests = []string{"local/f", "local/p", "local/d", "local/g/h/i", "secrets/file", "tmp/s"}
	case "swaps", "races": // a file that cannot be written ends the allocation
		dests = nil
	}
	for _, dest := range dests {
		text := "plain"
		if dest == "secrets/s" {
			text = canary
		}
		web.Templates = append(web.Templates, &api.Template{EmbeddedTmpl: &text, DestPath: &dest})
	}
	if kind == "races" {
		web.Config["args"] = []string{"-c", "exit 1"}
	}
	hostile := *web
	hostile.Name, hostile.Templates, hostile.Config = "hostile", nil, map[string]any{"command": b.Dir + "/hostile"}
	hostile.Env = map[string]string{
		kindVar: kind, victimVar: b.victim, reportsVar: b.reports, dataVar: filepath.Join(b.Dir, "data"), pidVar: strconv.Itoa(b.PID()),
	}
	g.Tasks = append(g.Tasks, &hostile)
	return j
}

// husk is a batch job whose allocations have ended, and are collected while others try.
func (b *bed) husk() *api.Job {
	j := b.job("husk")
	kind, count := "batch", 3
	j.Type, j.TaskGroups[0].Count, j.TaskGroups[0].ReschedulePolicy = &kind, &count, nil
	j.TaskGroups[0].Tasks = j.TaskGroups[0].Tasks[1:]
	return j
}

// guarded is all that must stay as it is: owners, modes, times and contents.
func (b *bed) guarded() string {
	var out strings.Builder
	for _, dir := range []string{b.victim, b.other + "/alloc/data", b.other + "/main"} {
		b.walk(dir, func(path string, info fs.FileInfo, st *syscall.Stat_t) {
			var body []byte
			if info.Mode().IsRegular() {
				body, _ = os.ReadFile(path)
			}
			fmt.Fprintf(&out, "%s %v %d:%d %d %v %x\n", path, info.Mode(), st.Uid, st.Gid, st.Nlink, info.ModTime().UnixNano(), sha256.Sum256(body))
		})
	}
	return out.String()
}

// strays are things of others, or for others, among what only the agent makes.
func (b *bed) strays() string {
	var out strings.Builder
	for _, dir := range []string{"client", "server"} {
		b.walk(filepath.Join(b.Dir, "data", dir), func(path string, info fs.FileInfo, st *syscall.Stat_t) {
			if st.Uid != 0 || st.Gid != 0 || info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSocket == 0 {
				fmt.Fprintf(&out, "%s %v %d:%d\n", path, info.Mode(), st.Uid, st.Gid)
			}
		})
	}
	entries, err := os.ReadDir(filepath.Join(b.Dir, "data", "alloc"))
	b.must(err)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || !info.IsDir() || info.Mode().Perm() != 0o755 {
			fmt.Fprintf(&out, "%s %v %d:%d\n", e.Name(), info.Mode(), st.Uid, st.Gid)
		}
	}
	return out.String()
}

func (b *bed) walk(dir string, do func(string, fs.FileInfo, *syscall.Stat_t)) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			do(path, info, info.Sys().(*syscall.Stat_t))
		}
		return nil
	})
}

// escapes are what hostile tasks noticed themselves.
func (b *bed) escapes() string {
	var out strings.Builder
	entries, err := os.ReadDir(b.reports)
	b.must(err)
	for _, e := range entries {
		body, _ := os.ReadFile(filepath.Join(b.reports, e.Name()))
		out.Write(body)
	}
	return out.String()
}

// running are the allocations of the hostile jobs that run or are about to, by job.
func (b *bed) running() map[string][]string {
	out := map[string][]string{}
	all, _, err := b.API.Allocations().List(nil)
	if err != nil {
		b.t.Errorf("list allocations: %v", err)
	}
	for _, s := range all {
		if s.JobID != "other" && (s.ClientStatus == "running" || s.ClientStatus == "pending") {
			out[s.JobID] = append(out[s.JobID], s.ID)
		}
	}
	return out
}

// restarts is how often the tasks beside the hostile ones were started again.
func (b *bed) restarts() (n uint64) {
	all, _, err := b.API.Allocations().List(nil)
	b.must(err)
	for _, s := range all {
		if web := s.TaskStates["web"]; web != nil {
			n += web.Restarts
		}
	}
	return n
}

// threads counts the threads of the agent: what waits in the kernel holds one.
func (b *bed) threads() int {
	tasks, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(b.PID()), "task"))
	return len(tasks)
}

func (b *bed) descriptors() int {
	open, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(b.PID()), "fd"))
	return len(open)
}

func sortedKinds() []string { return slices.Sorted(maps.Keys(kinds)) }
