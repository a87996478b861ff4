package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/secrets"
)

// safe returns one value for each block, after its errors.
type safe struct {
	mu   sync.Mutex
	errs []error
	got  []secrets.Task
}

func (s *safe) Fetch(_ context.Context, of secrets.Task, blocks []*api.Secret) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, of)
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	out := map[string]string{}
	for _, b := range blocks {
		out[b.Name+".key"] = "hunter22 " + of.Replace(b.Path)
	}
	return out, nil
}

func withSecret(env map[string]string) *api.Task {
	return &api.Task{
		Name: "t", Env: env, Config: map[string]any{"command": "${secret.s.key}"},
		Secrets: []*api.Secret{{Name: "s", Provider: "nomad", Path: "at/${NOMAD_TASK_NAME}"}},
	}
}

// fetching is a bench with secrets.
func fetching(t *testing.T, errs []error, spec *api.Task) (*bench, *safe) {
	b, _ := identified(t, spec)
	s := &safe{errs: errs}
	b.conf.Secrets = s
	b.renew(t)
	return b, s
}

func messages(s *api.TaskState) (text string) {
	for _, e := range s.Events {
		text += e.DisplayMessage + "\n" + fmt.Sprint(e.Details, e.Message) + "\n"
	}
	return text
}

func TestSecretsAreInTheEnvironmentAndTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := fetching(t, []error{fault.New(fault.NotLeader, "no leader")}, withSecret(map[string]string{"A": "<${secret.s.key}>"}))
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		started := b.driver.started[0]
		if started.Env["A"] != "<hunter22 at/t>" || started.Config["command"] != "hunter22 at/t" {
			t.Errorf("%q %q", started.Env["A"], started.Config)
		}
		if started.Env["NOMAD_TOKEN"] != "" {
			t.Error("the task has the token with which its secrets are read")
		}
		if of := s.got[1]; of.Token != "a1/t/default/1" {
			t.Errorf("read by %+v", of)
		}
		if text := messages(b.States()["t"]); !strings.Contains(text, "The servers are waited for, which have the secrets of the task: no leader") || strings.Contains(text, "hunter22") {
			t.Error(text)
		}
		b.Stop()
		_ = wait()
	})
}

// TestSecretsThatFailAreEventsWithoutValues: the restart policy applies, for what is missing may be added.
func TestSecretsThatFailAreEventsWithoutValues(t *testing.T) {
	for what, c := range map[string]struct {
		fetch, start []error
		env          map[string]string
		want         string
	}{
		"missing":     {fetch: []error{fault.New(fault.NotFound, "there is no such variable")}, want: "there is no such variable"},
		"unknown key": {env: map[string]string{"A": "${secret.s.none}"}, want: `${secret.s.none}: secret "s" has no key "none"`},
		"driver":      {start: []error{fault.New(fault.Unavailable, "no command %q", "hunter22 at/t")}, want: `no command "(s.key)"`},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s := fetching(t, c.fetch, withSecret(c.env))
				b.driver.startErr = c.start
				wait := b.run(t.Context())
				time.Sleep(time.Minute)
				state := b.States()["t"]
				if text := messages(state); !strings.Contains(text, c.want) || strings.Contains(text, "hunter22") {
					t.Error(text)
				}
				if alive := state.State == api.TaskStateRunning; alive != (c.env == nil) || len(s.got) != 2 {
					t.Errorf("%s after %d calls", state.State, len(s.got))
				}
				b.Stop()
				_ = wait()
			})
		})
	}
}
