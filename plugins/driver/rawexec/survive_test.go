package rawexec_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func pidOf(t *testing.T, d *rawexec.Driver, id, which string) int {
	t.Helper()
	st, err := d.Inspect(id)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(st.Attributes[which])
	if err != nil || pid <= 1 {
		t.Fatalf("%s is %q", which, st.Attributes[which])
	}
	return pid
}

func hasEnded(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

// threadsOf lists the threads of a process and where each waits.
func threadsOf(pid int) (out string) {
	dirs, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	for _, dir := range dirs {
		out += "\n" + dir
		for _, name := range []string{"stat", "wchan", "syscall", "children", "stack"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			out += " " + strings.TrimSpace(string(b))
		}
	}
	return out
}

// family starts a task with a child in a session of its own.
func family(t *testing.T, d *rawexec.Driver) (task *driver.Task, handle *driver.Handle, child int) {
	t.Helper()
	task = suite.NewTask(t, sh(`setsid sh -c 'echo $$; exec sleep 1000' & wait`))
	handle, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	suite.Eventually(t, "the pid of the child", func() bool {
		child, _ = strconv.Atoi(strings.TrimSpace(suite.LogText(task, "stdout")))
		return child > 1
	})
	return task, handle, child
}

func TestKilledSupervisorTakesItsTaskAlong(t *testing.T) {
	d := newDriver(t, t.TempDir())
	task, _, child := family(t, d)
	main := pidOf(t, d, task.ID, "pid")
	if err := syscall.Kill(pidOf(t, d, task.ID, "supervisor_pid"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	x, err := d.Wait(suite.Context(t), task.ID)
	if err != nil || x.Err == "" || x.Successful() {
		t.Errorf("exit %+v %v, want an unknown outcome", x, err)
	}
	suite.Eventually(t, "all processes have ended", func() bool { return hasEnded(main) && hasEnded(child) })
}

// TestOrphansOfAKilledSupervisorEnd: processes of root that have left cgroup and session are known by their environment;
// those of other tasks are left alone.
func TestOrphansOfAKilledSupervisorEnd(t *testing.T) {
	const leave = `for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs; do echo $$ > $f; done 2>/dev/null`
	start := func(d *rawexec.Driver, alloc string) (task *driver.Task, h *driver.Handle, child int) {
		t.Helper()
		task = suite.NewTask(t, sh(`setsid sh -c 'trap "" TERM; `+leave+`; echo $$; exec sleep 1000' & wait`))
		task.ID += alloc
		task.Env["NOMAD_ALLOC_ID"], task.Env["NOMAD_TASK_NAME"] = alloc, "web"
		h, err := d.Start(suite.Context(t), task)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
		suite.Eventually(t, "the pid of the child", func() bool {
			child, _ = strconv.Atoi(strings.TrimSpace(suite.LogText(task, "stdout")))
			return child > 1
		})
		return task, h, child
	}
	for name, away := range map[string]bool{"while the agent is there": false, "while no agent is there": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := newDriver(t, dir)
			task, h, child := start(d, "a1")
			_, _, other := start(d, "a2")
			supervisor := pidOf(t, d, task.ID, "supervisor_pid")
			if away {
				_ = d.Close()
			}
			if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if away {
				suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
				d = newDriver(t, dir)
				if err := d.Recover(suite.Context(t), h); !errors.Is(err, fault.NotFound) {
					t.Errorf("recover: %v, want not found", err)
				}
			} else if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Err == "" {
				t.Errorf("exit %+v %v, want an unknown outcome", x, err)
			}
			suite.Eventually(t, "the process of the task has ended", func() bool { return hasEnded(child) })
			if hasEnded(other) {
				t.Error("a process of another task was killed")
			}
			if left := d.Remains(task.ID); len(left) > 0 {
				t.Errorf("remains %v", left)
			}
		})
	}
}

// markOf starts a task that prints its mark.
func markOf(t *testing.T, d *rawexec.Driver, alloc string, env map[string]string, then string) (task *driver.Task, mark string) {
	t.Helper()
	task = suite.NewTask(t, sh(`echo "mark $NOMAD_ATTEMPT_MARK"; `+then))
	task.ID, task.AllocID, task.Env = alloc+"/web/1", alloc, env
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	suite.Eventually(t, "the task is up", func() bool {
		var ok bool
		mark, ok = strings.CutPrefix(strings.TrimSpace(suite.LogText(task, "stdout")), "mark ")
		return ok
	})
	return task, mark
}

// TestForgedMarksEndNobodyElse: a job sets variables of its environment, and a process those that /proc shows of it.
func TestForgedMarksEndNobodyElse(t *testing.T) {
	for name, found := range map[string]bool{"known by its handle": false, "found without one": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := newDriver(t, dir, func(c *rawexec.Config) { c.NoCgroups = true })
			env := map[string]string{"NOMAD_ALLOC_ID": "victim", "NOMAD_TASK_NAME": "web"}
			task, mark := markOf(t, d, "victim", env, "sleep 1000")
			victim := pidOf(t, d, task.ID, "pid")
			hostile, own := markOf(t, d, "hostile", map[string]string{"NOMAD_ALLOC_ID": "victim", "NOMAD_TASK_NAME": "web", "NOMAD_ATTEMPT_MARK": mark},
				"NOMAD_ATTEMPT_MARK="+mark+" exec sleep 1000")
			if own == mark || mark == "" {
				t.Errorf("a job chose its mark %q", own)
			}
			supervisor := pidOf(t, d, hostile.ID, "supervisor_pid")
			if found {
				_ = d.Close()
				d = newDriver(t, dir)
				h, err := d.Find(suite.Context(t), hostile.ID)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Wait(suite.Context(t), hostile.ID); err != nil {
				t.Fatal(err)
			}
			if hasEnded(victim) {
				t.Error("a process of another allocation was killed")
			}
		})
	}
}

// TestProcessesOfOtherTasksAreNoOrphans: whatever mark a process carries, one that another task has is left to it.
func TestProcessesOfOtherTasksAreNoOrphans(t *testing.T) {
	root := unified(t)
	d := newDriver(t, t.TempDir())
	lost, mark := markOf(t, d, "lost", nil, "sleep 1000")
	carry := func(then string) int {
		t.Helper()
		c := exec.Command("/bin/sh", "-c", then+"exec sleep 1000")
		c.Env = []string{"NOMAD_ATTEMPT_MARK=" + mark, "PATH=" + os.Getenv("PATH")}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c.Process.Pid
	}
	if err := os.MkdirAll(filepath.Join(root, "nomad.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	makeCgroup(t, filepath.Join(root, "nomad.slice/nomad-test-other.scope"))
	inside := carry("echo $$ >" + root + "/nomad.slice/nomad-test-other.scope/cgroup.procs; ")
	outside := carry("")
	task, _ := markOf(t, d, "other", nil, "NOMAD_ATTEMPT_MARK="+mark+" exec sleep 1000")
	other := pidOf(t, d, task.ID, "pid")
	bare := newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.NoCgroups = true })
	task, _ = markOf(t, bare, "bare", nil, "NOMAD_ATTEMPT_MARK="+mark+" exec sleep 1000")
	without := pidOf(t, bare, task.ID, "pid")
	for _, pid := range []int{inside, outside, other, without} {
		suite.Eventually(t, "it carries the mark", func() bool {
			env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
			name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
			return strings.Contains(string(env), "="+mark+"\x00") && string(name) == "sleep\n"
		})
	}
	if err := syscall.Kill(pidOf(t, d, lost.ID, "supervisor_pid"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Wait(suite.Context(t), lost.ID); err != nil {
		t.Fatal(err)
	}
	for name, pid := range map[string]int{"in the cgroup of another task": inside, "of another task": other, "of another task without a cgroup": without} {
		if hasEnded(pid) {
			t.Errorf("a process %s was killed", name)
		}
	}
	suite.Eventually(t, "the process that belongs to no other task has ended", func() bool { return hasEnded(outside) })
}

func TestRecoverAfterSupervisorDied(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	task, h, child := family(t, d)
	supervisor := pidOf(t, d, task.ID, "supervisor_pid")
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); !errors.Is(err, fault.NotFound) {
		t.Errorf("recover: %v, want not found", err)
	}
	suite.Eventually(t, "the child has ended", func() bool { return hasEnded(child) })
}

// TestPruneEndsForgottenTasks: the agent died after a start and before the handle was stored.
func TestPruneEndsForgottenTasks(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	forgotten, _, child := family(t, d)
	kept := suite.NewTask(t, sh("sleep 1000"))
	kept.ID += "/kept"
	h, err := d.Start(suite.Context(t), kept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), kept.ID) })

	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	pruned, err := again.Prune(suite.Context(t), nil, true)
	if err != nil || len(pruned) != 1 || pruned[0] != forgotten.ID {
		t.Errorf("pruned %v %v, want %s", pruned, err, forgotten.ID)
	}
	suite.Eventually(t, "the child has ended", func() bool { return hasEnded(child) })
	if st, err := again.Inspect(kept.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("kept task %+v %v", st, err)
	}
	left, _ := filepath.Glob(dir + "/*/*.sock")
	if len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}

// TestAttemptsAreFoundWithoutTheirHandles: the agent died after a start and before the handle was stored, and knows
// which attempt it would have made next.
func TestAttemptsAreFoundWithoutTheirHandles(t *testing.T) {
	for name, script := range map[string]string{"running": "sleep 1000", "ended": "exit 3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			task := suite.NewTask(t, sh(script))
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			if name == "ended" {
				if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
					t.Fatal(err)
				}
			}
			again := newDriver(t, dir)
			if _, err := again.Find(suite.Context(t), task.ID+"0"); !errors.Is(err, fault.NotFound) {
				t.Errorf("find another: %v", err)
			}
			for _, c := range []struct {
				spare []string
				all   bool
			}{{nil, false}, {[]string{task.ID}, true}} {
				if pruned, err := again.Prune(suite.Context(t), c.spare, c.all); err != nil || len(pruned) > 0 {
					t.Errorf("prune of %+v: %v %v", c, pruned, err)
				}
			}
			for range 2 { // a refused start leaves everything in place
				if _, err := again.Start(suite.Context(t), task); !errors.Is(err, fault.Conflict) {
					t.Errorf("second start: %v", err)
				}
			}
			h, err := again.Find(suite.Context(t), task.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Recover(suite.Context(t), h); err != nil {
				t.Fatal(err)
			}
			if err := again.Stop(suite.Context(t), task.ID, "SIGTERM", time.Second); err != nil {
				t.Fatal(err)
			}
			x, err := again.Wait(suite.Context(t), task.ID)
			if err != nil || name == "ended" && x.Code != 3 || name == "running" && x.Signal != int(syscall.SIGTERM) {
				t.Errorf("exit %+v %v", x, err)
			}
			if err := again.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOrphansEndWithTheMainProcess(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rawexec.Config){
		"cgroup":    func(*rawexec.Config) {},
		"no cgroup": func(c *rawexec.Config) { c.NoCgroups = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir(), change)
			task := suite.NewTask(t, sh(`setsid sh -c 'trap "" TERM INT HUP; echo $$ >child; while :; do sleep 1000; done' & while ! [ -s child ]; do sleep 0.01; done; exit 3`))
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			x, err := d.Wait(suite.Context(t), task.ID)
			if err != nil || x.Code != 3 {
				t.Fatalf("exit %+v %v", x, err)
			}
			b, _ := os.ReadFile(filepath.Join(task.Dir, "child"))
			child, _ := strconv.Atoi(strings.TrimSpace(string(b)))
			if child <= 1 || !hasEnded(child) {
				t.Errorf("child %d outlived its task", child)
			}
		})
	}
}

func TestLogsRotate(t *testing.T) {
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh(`i=0; while [ $i -lt 60000 ]; do echo "line $i of a text that is long enough to fill files soon enough"; i=$((i+1)); done`))
	task.Logs.MaxFiles = 2
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
		t.Fatalf("exit %+v %v", x, err)
	}
	files, _ := filepath.Glob(task.Logs.Dir + "/web.stdout.*")
	if len(files) != 2 {
		t.Fatalf("files %v, want 2", files)
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || len(b) > 1<<20 || !strings.HasPrefix(string(b), "line ") || !strings.HasSuffix(string(b), "\n") {
			t.Errorf("%s: %d bytes, %v", f, len(b), err)
		}
		text.Write(b)
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, l := range lines {
		if want := strconv.Itoa(60000 - len(lines) + i); !strings.HasPrefix(l, "line "+want+" ") {
			t.Fatalf("line %d is %q, want number %s", i, l, want)
		}
	}
}

func TestEnvironmentUserAndDirectory(t *testing.T) {
	d := newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.DeniedEnvvars = []string{"SECRET_*", "*_TOKEN"} })
	task := suite.NewTask(t, map[string]any{
		"command": "/bin/sh", "denied_envvars": []any{"HIDDEN"},
		"args": []any{"-c", `echo "$GREETING:$SECRET_KEY:$MY_TOKEN:$HIDDEN"; id -un; pwd; cat /proc/self/oom_score_adj`}, "oom_score_adj": 500.0,
	})
	task.Env["GREETING"], task.Env["SECRET_KEY"], task.Env["HIDDEN"], task.Env["MY_TOKEN"] = "hello", "x", "y", "z"
	task.User = "nobody"
	for dir := task.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
		t.Fatalf("exit %+v %v", x, err)
	}
	want := "hello:::\nnobody\n" + task.Dir + "\n500\n"
	if out := suite.LogText(task, "stdout"); out != want {
		t.Errorf("the task printed %q, want %q", out, want)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		key    string
		config map[string]any
	}{
		"no command":     {"command", map[string]any{}},
		"empty command":  {"command", map[string]any{"command": ""}},
		"args":           {"args", map[string]any{"args": "one"}},
		"relative":       {"work_dir", map[string]any{"work_dir": "here"}},
		"NUL byte":       {"work_dir", map[string]any{"work_dir": "/he\x00re"}},
		"low score":      {"oom_score_adj", map[string]any{"oom_score_adj": -5}},
		"high score":     {"oom_score_adj", map[string]any{"oom_score_adj": 1001}},
		"no score":       {"oom_score_adj", map[string]any{"oom_score_adj": "much"}},
		"both cgroups":   {"cgroup_v2_override", map[string]any{"cgroup_v2_override": "a", "cgroup_v1_override": []any{map[string]any{"pids": "a"}}}},
		"no map":         {"cgroup_v1_override", map[string]any{"cgroup_v1_override": "pids"}},
		"no variable":    {"denied_envvars", map[string]any{"denied_envvars": []any{""}}},
		"an assignment":  {"denied_envvars", map[string]any{"denied_envvars": []any{"A=B"}}},
		"no list":        {"denied_envvars", map[string]any{"denied_envvars": "A"}},
		"an unknown key": {"workdir", map[string]any{"workdir": "/"}},
	} {
		if _, set := c.config["command"]; !set && c.key != "command" {
			c.config["command"] = "x"
		}
		if err := rawexec.ValidateConfig(c.config); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"`+c.key+`"`) {
			t.Errorf("%s: %v, want invalid, with the key %s", name, err, c.key)
		}
	}
}

func TestWorkDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("pwd"))
	task.Config["work_dir"] = dir
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() || suite.LogText(task, "stdout") != dir+"\n" {
		t.Errorf("exit %+v, error %v, output %q, want %s", x, err, suite.LogText(task, "stdout"), dir)
	}
	for _, bad := range []string{file, dir + "/missing"} {
		task.ID, task.Config["work_dir"] = bad, bad
		_, err := d.Start(suite.Context(t), task)
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "work_dir") || !strings.Contains(err.Error(), bad) {
			t.Errorf("work_dir %s: %v", bad, err)
		}
	}
}

func TestDisabledDriverStartsNothing(t *testing.T) {
	d := newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.Enabled = false })
	if _, err := d.Start(suite.Context(t), suite.NewTask(t, sh("true"))); !errors.Is(err, fault.Invalid) {
		t.Errorf("start: %v, want invalid", err)
	}
	ch, err := d.Fingerprint(suite.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if f := <-ch; f.Health != driver.Undetected {
		t.Errorf("fingerprint %+v", f)
	}
}

func TestUnusableProgramsAreNamed(t *testing.T) {
	dir := volume(t, "data")
	if err := os.WriteFile(dir+"/script", []byte("#!/no/such/shell\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"no-such-thing", "/no/such/thing", dir, dir + "/data", dir + "/script", "sub/thing"} {
		d := newDriver(t, t.TempDir())
		_, err := d.Start(suite.Context(t), suite.NewTask(t, map[string]any{"command": command}))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), command) {
			t.Errorf("start of %s: %v", command, err)
		}
	}
}
