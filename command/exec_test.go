package command_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/api"
)

// shell is an agent whose commands copy their input to both outputs and exit with the given code; a negative one is an error.
func shell(t *testing.T, code int) *agent {
	t.Helper()
	spec := &api.Task{Name: "t", Actions: []*api.Action{{Name: "dump", Command: "x"}}}
	alloc := &api.Allocation{
		ID: "a11", JobID: "j", TaskGroup: "g", Namespace: "default", ClientStatus: "running",
		Job: &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{spec}}}},
	}
	stub := []*api.AllocStub{{ID: "a11", JobID: "j", TaskGroup: "g", Namespace: "default", ClientStatus: "running"}}
	a := newAgent(t, map[string]any{
		"GET /v1/allocations": stub, "GET /v1/allocation/a11": alloc, "GET /v1/job/j/allocations": stub,
		"GET /v1/jobs":          []*api.JobStub{{ID: "j", Namespace: "default"}},
		"GET /v1/job/j/actions": []api.JobAction{{Action: *spec.Actions[0], TaskName: "t", TaskGroupName: "g"}},
	})
	table := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/exec") && !strings.HasSuffix(r.URL.Path, "/action") {
			table.ServeHTTP(w, r)
			return
		}
		a.mu.Lock()
		a.asked = append(a.asked, r.URL.Path+"?"+r.URL.RawQuery)
		a.mu.Unlock()
		serveShell(w, r, code)
	})
	return a
}

func serveShell(w http.ResponseWriter, r *http.Request, code int) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	if code < 0 {
		_ = conn.Close(websocket.StatusPolicyViolation, "Task not running")
		return
	}
	send := func(out api.ExecStreamingOutput) {
		body, _ := json.Marshal(out)
		_ = conn.Write(r.Context(), websocket.MessageText, body)
	}
	for {
		var in api.ExecStreamingInput
		_, body, err := conn.Read(r.Context())
		if err != nil || json.Unmarshal(body, &in) != nil {
			return
		}
		if in.Stdin == nil {
			continue
		}
		if len(in.Stdin.Data) > 0 {
			send(api.ExecStreamingOutput{Stdout: in.Stdin})
			send(api.ExecStreamingOutput{Stderr: in.Stdin})
		}
		if in.Stdin.Close {
			break
		}
	}
	send(api.ExecStreamingOutput{Stdout: &api.ExecStreamingIO{Close: true}})
	send(api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExit{ExitCode: code}})
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// runExec runs the verb with the address before the allocation: what follows that belongs to the command.
func runExec(t *testing.T, a *agent, input string, args ...string) outcome {
	t.Helper()
	return run(t, nil, input, append([]string{"alloc", "exec", "-address", a.URL}, args...)...)
}

func TestAllocExec(t *testing.T) {
	t.Parallel()
	a := shell(t, 7)
	if o := runExec(t, a, "some input", "-task", "t", "a11", "sh", "-c", "x", "-t"); o.code != 7 || o.out != "some input" || o.err != "some input" {
		t.Errorf("%+v", o)
	}
	asked := strings.Join(a.asked, "\n")
	if want := "command=%5B%22sh%22%2C%22-c%22%2C%22x%22%2C%22-t%22%5D"; !strings.Contains(asked, want) || !strings.Contains(asked, "tty=false") || !strings.Contains(asked, "task=t") {
		t.Errorf("asked %s", asked)
	}
	if o := runExec(t, shell(t, 0), "unread", "-i=false", "-job", "j", "cat"); o.code != 0 || o.out != "" {
		t.Errorf("%+v", o)
	}
	runExec(t, shell(t, -1), "", "a11", "cat").want(t, 1, "Task not running")
	runExec(t, shell(t, 0), "", "a11").want(t, 1, "at least 2 arguments")
	runExec(t, shell(t, 0), "", "-t", "a11", "sh").want(t, 1, "-t needs a terminal")
	if o := run(t, nil, "", "exec", "-address", shell(t, 3).URL, "a11", "true"); o.code != 3 {
		t.Errorf("short form: %+v", o)
	}
}

func TestJobAction(t *testing.T) {
	t.Parallel()
	a := shell(t, 4)
	if o := run(t, a, "in", "job", "action", "-job", "j", "dump"); o.code != 4 || o.out != "in" {
		t.Errorf("%+v", o)
	}
	if asked := strings.Join(a.asked, "\n"); !strings.Contains(asked, "/v1/job/j/action?action=dump&allocID=a11") {
		t.Errorf("asked %s", asked)
	}
	run(t, shell(t, 0), "", "action", "-job", "j", "none").want(t, 1, `no such action "none"; it has: dump (task t)`)
	run(t, shell(t, 0), "", "action", "dump").want(t, 1, "-job is needed")
}
