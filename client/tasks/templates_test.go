package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/templates"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// templateDir is where the program that renders is installed once.
var templateDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "templates-")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(templateDir())
	os.Exit(code)
}

// rendering is a bench whose task t has templates.
func rendering(t *testing.T, jobType string, spec *api.Task) *bench {
	t.Helper()
	spec.Name = "t"
	b := setup(t, jobType, spec)
	b.conf.Templates = &templates.Program{Dir: templateDir(), Denied: templates.DeniedDefault(), Log: hclog.NewNullLogger()}
	b.renew(t)
	if err := b.conf.Dirs.BuildTask("t"); err != nil {
		t.Fatal(err)
	}
	return b
}

// put replaces a file in the local directory of task t.
func (b *bench) put(t *testing.T, name, text string) {
	t.Helper()
	at := filepath.Join(b.conf.Dirs.Task("t").Local(), name)
	if err := errors.Join(os.WriteFile(at+".new", []byte(text), 0o600), os.Rename(at+".new", at)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) get(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.conf.Dirs.Task("t").Local(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// says waits until an event of the task contains a text.
func (b *bench) says(t *testing.T, text string) {
	t.Helper()
	b.until(t, text, func(s map[string]*api.TaskState) bool { return strings.Contains(messages(s["t"]), text) })
}

func TestTemplatesAreRenderedBeforeTheTaskStarts(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{
		Env: map[string]string{"WHO": "ann"}, Config: map[string]any{"command": "${FROM_TEMPLATE}"},
		Templates: []*api.Template{
			{EmbeddedTmpl: `{{ env "WHO" }}{{ file "local/in" }}`, DestPath: "local/a/${WHO}", Perms: "0640"},
			{EmbeddedTmpl: "FROM_TEMPLATE={{ env \"WHO\" }} x\nWHO=bob", DestPath: "secrets/env", Envvars: true},
			{SourcePath: "${NOMAD_ALLOC_DIR}/data/source", DestPath: "${NOMAD_ALLOC_DIR}/data/out"},
			{EmbeddedTmpl: `<< "x" | toUpper >>{{ kept }}`, DestPath: "local/delims", LeftDelim: "<<", RightDelim: ">>", Uid: os.Getuid(), Gid: os.Getgid()},
		},
	})
	shared := b.conf.Dirs.Shared()
	if err := os.WriteFile(filepath.Join(shared, "data", "source"), []byte(`{{ "s" | toUpper }}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(t.Context())
	b.says(t, "Missing: file(local/in)")
	if b.driver.lives() > 0 {
		t.Error("the task was started before")
	}
	b.put(t, "in", "!")
	b.until(t, "running", running("t"))
	if got := b.get(t, "a/ann"); got != "ann!" {
		t.Errorf("got %q", got)
	}
	if st, err := os.Stat(filepath.Join(b.conf.Dirs.Task("t").Local(), "a", "ann")); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v %v", st, err)
	}
	if got := b.get(t, "delims"); got != "X{{ kept }}" {
		t.Errorf("got %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(shared, "data", "out")); string(got) != "S" {
		t.Errorf("got %q, %v", got, err)
	}
	if task := b.driver.started[0]; task.Env["FROM_TEMPLATE"] != "ann x" || task.Env["WHO"] != "bob" || task.Config["command"] != "ann x" {
		t.Errorf("env %v, config %v", task.Env, task.Config)
	}
}

func TestChangesRestartOrSignalTheTask(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{
		{EmbeddedTmpl: `{{ file "local/quiet" }}`, DestPath: "local/1", ChangeMode: "noop"},
		{EmbeddedTmpl: `{{ file "local/signals" }}`, DestPath: "local/2", ChangeMode: "signal", ChangeSignal: "SIGUSR1"},
		{EmbeddedTmpl: `{{ file "local/restarts" }}`, DestPath: "local/3", ChangeMode: "restart"},
		{EmbeddedTmpl: `{{ file "local/restarts" }}`, DestPath: "local/4", ChangeMode: "restart", Once: true},
	}})
	for _, name := range []string{"quiet", "signals", "restarts"} {
		b.put(t, name, "old")
	}
	b.run(t.Context())
	b.until(t, "running", running("t"))
	b.put(t, "quiet", "new")
	b.put(t, "signals", "new")
	b.says(t, "Task being sent signal SIGUSR1: Template re-rendered")
	for b.get(t, "1") != "new" || b.get(t, "2") != "new" {
		time.Sleep(time.Millisecond)
	}
	if s := b.States()["t"]; s.Restarts != 0 {
		t.Errorf("restarts: %v", events(s))
	}
	b.put(t, "restarts", "new")
	b.until(t, "restart", func(s map[string]*api.TaskState) bool { return s["t"].Restarts == 1 && running("t")(s) })
	if got := messages(b.States()["t"]); !strings.Contains(got, "Template with change_mode restart re-rendered") {
		t.Errorf("got %s", got)
	}
	if b.get(t, "3") != "new" {
		t.Errorf("got %q", b.get(t, "3"))
	}
}

func TestTemplateThatCannotBeRenderedFailsTheTask(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		tm   api.Template
		want string
	}{
		"syntax":      {api.Template{EmbeddedTmpl: "{{ if }}", DestPath: "local/x"}, "template local/x: parse:"},
		"source":      {api.Template{SourcePath: "local/none", DestPath: "local/x"}, "template local/x: read source: "},
		"outside":     {api.Template{SourcePath: "../../../etc/passwd", DestPath: "local/x"}, "outside of the directories"},
		"variables":   {api.Template{EmbeddedTmpl: "{{ env `x` }}word", DestPath: "local/x", Envvars: true}, "line 1 is not of the form NAME=value"},
		"permissions": {api.Template{EmbeddedTmpl: "x", DestPath: "local/x", Perms: "u+s"}, "not octal"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := rendering(t, "service", &api.Task{Templates: []*api.Template{&c.tm}})
			if err := b.run(t.Context())(); err != nil {
				t.Fatal(err)
			}
			if s := b.States()["t"]; !s.Failed || !slices.Contains(events(s), api.EventSetupFailure) || !strings.Contains(messages(s), c.want) {
				t.Errorf("failed %v, want %q: %s", s.Failed, c.want, messages(s))
			}
		})
	}
}

func TestTemplateThatFailsLaterFailsTheTask(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{{
		EmbeddedTmpl: `{{ (file "local/in" | parseJSON).key }}`, DestPath: "local/out", ErrMissingKey: true, ChangeMode: "noop",
	}}})
	b.put(t, "in", `{"key":1}`)
	wait := b.run(t.Context())
	b.until(t, "running", running("t"))
	b.put(t, "in", `{}`)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if s := b.States()["t"]; !s.Failed || !strings.Contains(messages(s), "Template failed: template local/out: ") || b.get(t, "out") != "1" {
		t.Errorf("failed %v: %s", s.Failed, messages(s))
	}
}

func TestStopDoesNotWaitForMissingData(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{{EmbeddedTmpl: `{{ file "local/none" }}`, DestPath: "local/out"}}})
	wait := b.run(t.Context())
	b.says(t, "Missing: file(local/none)")
	b.Stop()
	if err := wait(); err != nil || b.driver.lives() > 0 {
		t.Errorf("%v, %d live", err, b.driver.lives())
	}
}

// A new agent process renders for the tasks that run: they are not restarted when nothing has changed meanwhile.
func TestTemplatesGoOnAfterARestartOfTheAgent(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{
		{EmbeddedTmpl: `{{ file "local/in" }} {{ env "NOMAD_TASK_NAME" }}`, DestPath: "local/out", ChangeMode: "restart"},
		{EmbeddedTmpl: `{{ file "local/signals" }}`, DestPath: "local/2", ChangeMode: "signal", ChangeSignal: "SIGUSR1"},
	}})
	b.put(t, "in", "1")
	b.put(t, "signals", "1")
	again := func() context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		return func() { cancel(); _ = wait() }
	}
	leave := again()
	b.until(t, "running", running("t"))
	leave()
	b.renew(t)
	leave = again()
	b.put(t, "signals", "2")
	b.says(t, "Task being sent signal SIGUSR1") // both templates are rendered by then
	if s := b.States()["t"]; s.Restarts != 0 {
		t.Errorf("restarts: %v", events(s))
	}
	leave()
	b.put(t, "in", "2") // while no agent runs
	b.renew(t)
	leave = again()
	b.until(t, "restart", func(s map[string]*api.TaskState) bool { return s["t"].Restarts == 1 && running("t")(s) })
	leave()
	if got := b.get(t, "out"); got != "2 t" {
		t.Errorf("got %q", got)
	}
}

// execing is a driver that runs commands in tasks: it records them, and ends them with the codes.
type execing struct {
	*scripted
	codes []int
	ran   chan []string
}

func (e *execing) Capabilities() driver.Capabilities {
	c := e.scripted.Capabilities()
	c.Exec = true
	return c
}

func (e *execing) Exec(_ context.Context, _ string, c *driver.Command) (int, error) {
	code := e.codes[0]
	e.codes = e.codes[1:]
	e.ran <- c.Args
	return code, nil
}

func TestChangesRunScripts(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{{
		EmbeddedTmpl: `{{ file "local/in" }}`, DestPath: "local/out", ChangeMode: "script",
		ChangeScript: &api.ChangeScript{Command: "/bin/x", Args: []string{"${NOMAD_TASK_NAME}"}, FailOnError: true, RunOnFirstRender: true},
	}}})
	e := &execing{b.driver, []int{0, 0, 3}, make(chan []string, 10)}
	b.instead = e
	b.put(t, "in", "1")
	wait := b.run(t.Context())
	for _, in := range []string{"2", "3"} {
		if got := <-e.ran; !slices.Equal(got, []string{"/bin/x", "t"}) {
			t.Errorf("ran %q", got)
		}
		b.says(t, "Template ran script /bin/x")
		b.put(t, "in", in)
	}
	<-e.ran
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if s := b.States()["t"]; !s.Failed || !strings.Contains(messages(s), "Template failed to run script /bin/x with arguments [\"${NOMAD_TASK_NAME}\"]: exit code 3") {
		t.Errorf("failed %v: %s", s.Failed, messages(s))
	}
}

func TestScriptNeedsADriverThatRunsCommands(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{Templates: []*api.Template{{
		EmbeddedTmpl: "x", DestPath: "local/out", ChangeMode: "script", ChangeScript: &api.ChangeScript{Command: "/bin/x", RunOnFirstRender: true},
	}}})
	b.run(t.Context())
	b.says(t, "driver fake runs no commands in tasks")
}

func TestRunScript(t *testing.T) {
	t.Parallel()
	b := rendering(t, "service", &api.Task{})
	e := &execing{b.driver, []int{2}, make(chan []string, 1)}
	b.instead = e
	b.run(t.Context())
	b.until(t, "running", running("t"))
	if code, err := b.RunScript(t.Context(), "t", []string{"/bin/${NOMAD_TASK_NAME}", "${node.unique.id}"}, io.Discard); err != nil || code != 2 {
		t.Errorf("code %d, %v", code, err)
	}
	if got := <-e.ran; !slices.Equal(got, []string{"/bin/t", "n1"}) {
		t.Errorf("ran %q", got)
	}
	if _, err := b.RunScript(t.Context(), "none", []string{"x"}, io.Discard); !errors.Is(err, fault.NotFound) {
		t.Errorf("a task that does not exist: %v", err)
	}
}

// A restart does not wait for data that was removed, such as the service of the task itself. With render_templates it does.
func TestRestartedTaskKeepsItsFiles(t *testing.T) {
	t.Parallel()
	for _, anew := range []bool{false, true} {
		t.Run(fmt.Sprint("render_templates ", anew), func(t *testing.T) {
			t.Parallel()
			b := rendering(t, "service", &api.Task{Templates: []*api.Template{
				{EmbeddedTmpl: `{{ file "local/in" }}`, DestPath: "local/out"}, {EmbeddedTmpl: `X={{ file "local/in" }}`, DestPath: "local/env", Envvars: true},
			}})
			b.conf.Alloc.Group().RestartPolicy.RenderTemplates = anew
			b.put(t, "in", "1")
			b.run(t.Context())
			b.until(t, "running", running("t"))
			local := b.conf.Dirs.Task("t").Local()
			if err := errors.Join(os.Remove(filepath.Join(local, "in")), os.Remove(filepath.Join(local, "out")), b.Restart(t.Context(), "t", false)); err != nil {
				t.Fatal(err)
			}
			if anew {
				b.says(t, "Missing: file(local/in)")
				b.put(t, "in", "1")
			}
			b.until(t, "restart", func(s map[string]*api.TaskState) bool { return s["t"].Restarts == 1 && running("t")(s) })
			b.driver.mu.Lock()
			env := b.driver.started[1].Env["X"]
			b.driver.mu.Unlock()
			if b.get(t, "out") != "1" || env != "1" {
				t.Errorf("file %q, variable %q", b.get(t, "out"), env)
			}
		})
	}
}
