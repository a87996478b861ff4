package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestCommandsAndActionsRunInTasks(t *testing.T) {
	b := setup(t)
	b.start(t)
	j := job("service", "mock_driver", map[string]any{"run_for": "1h"})
	spec := j.TaskGroups[0].Tasks[0]
	spec.Env = map[string]string{"WHO": "world"}
	spec.Actions = []*api.Action{{Name: "greet", Command: "echo", Args: []string{"hello", "${WHO}", "${NOMAD_TASK_NAME}"}}}
	b.place(alloc("a1", j))
	b.until(t, "it runs", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	open := func(r api.ExecOpenRequest) error {
		r.AllocID, r.From = "a1", "10.1.2.3:4"
		_, err := call(t, b.servers, wire.ClientAllocExecOpen, &r)
		return err
	}
	output := func(session string) (text string, code int) {
		for {
			out, err := call(t, b.servers, wire.ClientAllocNodeExec, &api.ExecRequest{AllocID: "a1", SessionID: session, Received: int64(len(text)), Wait: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range out.Output {
				text += string(o.Data)
			}
			if out.Exited {
				return text, out.ExitCode
			}
		}
	}
	if err := open(api.ExecOpenRequest{SessionID: "s1", Task: "t", Action: "greet"}); err != nil {
		t.Fatal(err)
	}
	if text, code := output("s1"); text != "hello world t\n" || code != 0 {
		t.Errorf("%q, code %d", text, code)
	}
	if err := open(api.ExecOpenRequest{SessionID: "s2", Task: "t", Command: []string{"exit", "5"}}); err != nil {
		t.Fatal(err)
	}
	if text, code := output("s2"); text != "" || code != 5 {
		t.Errorf("%q, code %d", text, code)
	}
	b.until(t, "the task has an event", func() bool {
		s := b.allocs["a1"].TaskStates["t"]
		if s == nil {
			return false
		}
		for _, e := range s.Events {
			if e.Type == "Exec" && strings.Contains(e.DisplayMessage, `"greet"`) && strings.Contains(e.DisplayMessage, "10.1.2.3") {
				return true
			}
		}
		return false
	})
	for name, test := range map[string]struct {
		r    api.ExecOpenRequest
		want fault.Class
	}{
		"unknown task":   {api.ExecOpenRequest{SessionID: "x", Task: "none", Command: []string{"echo"}}, fault.NotFound},
		"unknown action": {api.ExecOpenRequest{SessionID: "x", Task: "t", Action: "none"}, fault.NotFound},
		"empty command":  {api.ExecOpenRequest{SessionID: "x", Task: "t"}, fault.Invalid},
	} {
		if err := open(test.r); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.place(stopped(alloc("a1", j)))
	b.until(t, "it is stopped", func() bool { return b.status("a1") == api.AllocClientStatusComplete })
	if err := open(api.ExecOpenRequest{SessionID: "s3", Task: "t", Command: []string{"echo"}}); !errors.Is(err, fault.Conflict) {
		t.Errorf("in an ended task: %v", err)
	}
}

func TestANodeCanRefuseCommands(t *testing.T) {
	b := setup(t)
	b.conf.DisableRemoteExec = true
	b.start(t)
	b.place(alloc("a1", job("service", "mock_driver", map[string]any{"run_for": "1h"})))
	b.until(t, "it runs", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	_, err := call(t, b.servers, wire.ClientAllocExecOpen, &api.ExecOpenRequest{AllocID: "a1", SessionID: "s", Task: "t", Command: []string{"echo"}})
	if !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "disable_remote_exec") {
		t.Errorf("%v", err)
	}
}
