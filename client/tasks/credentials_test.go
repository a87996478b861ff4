package tasks_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// notary signs identities: each token ends with the number of the call.
type notary struct {
	mu    sync.Mutex
	calls [][]string
	// errs are the errors of the next calls.
	errs []error
}

func (n *notary) Sign(_ context.Context, allocID, task string, names []string) (map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, names)
	if len(n.errs) > 0 {
		err := n.errs[0]
		n.errs = n.errs[1:]
		return nil, err
	}
	out := map[string]string{}
	for _, name := range names {
		out[name] = strings.Join([]string{allocID, task, name, strconv.Itoa(len(n.calls))}, "/")
	}
	return out, nil
}

func (n *notary) asked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls)
}

// identified is a bench with a notary.
func identified(t *testing.T, list ...*api.Task) (*bench, *notary) {
	b, n := setup(t, "service", list...), &notary{}
	b.conf.Identities = n
	b.renew(t)
	return b, n
}

func (s *scripted) starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.started)
}

func (b *bench) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.conf.Dirs.Dir(), name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestIdentitiesAreInTheEnvironmentAndInFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, &api.Task{Name: "t", Identity: &api.WorkloadIdentity{Name: "default", Env: true, File: true}, Identities: []*api.WorkloadIdentity{
			{Name: "aws", Env: true}, {Name: "vault", File: true}, {Name: "own", File: true, Filepath: "local/own.jwt"}, {Name: "unused"},
		}}, &api.Task{Name: "plain", Identity: &api.WorkloadIdentity{Name: "default"}})
		wait := b.run(t.Context())
		b.until(t, "running", running("t", "plain"))
		for _, started := range b.driver.started {
			env := started.Env
			if started.Name == "plain" {
				if env["NOMAD_TOKEN"] != "" || env["NOMAD_UNIX_ADDR"] != "" {
					t.Errorf("a task without identity has %v", env)
				}
				continue
			}
			if env["NOMAD_TOKEN"] != "a1/t/default/1" || env["NOMAD_TOKEN_aws"] != "a1/t/aws/1" || env["NOMAD_TOKEN_vault"] != "" ||
				env["NOMAD_UNIX_ADDR"] != "unix://"+started.SecretsDir+"/api.sock" {
				t.Errorf("environment %v", env)
			}
		}
		for name, want := range map[string]string{
			"t/secrets/nomad_token": "a1/t/default/1", "t/secrets/nomad_vault.jwt": "a1/t/vault/1", "t/local/own.jwt": "a1/t/own/1",
		} {
			if got := b.file(t, name); got != want {
				t.Errorf("%s holds %q", name, got)
			}
		}
		if len(n.calls) != 1 || !slices.Equal(n.calls[0], []string{"default", "aws", "vault", "own"}) {
			t.Errorf("calls %v", n.calls)
		}
		b.Stop()
		_ = wait()
	})
}

func TestFilesOfIdentitiesStayInTheDirectoryOfTheTask(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, task, outside string) (filepath string){
		"parent":   func(*testing.T, string, string) string { return "../escaped" },
		"absolute": func(_ *testing.T, _, outside string) string { return outside + "/escaped" },
		"link": func(t *testing.T, task, outside string) string {
			if err := os.Symlink(outside, filepath.Join(task, "link")); err != nil {
				t.Fatal(err)
			}
			return "link/escaped"
		},
		"link of the file": func(t *testing.T, task, outside string) string {
			if err := os.Symlink(outside+"/escaped", filepath.Join(task, "file")); err != nil {
				t.Fatal(err)
			}
			return "file"
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := &api.WorkloadIdentity{Name: "x", File: true}
			b, _ := identified(t, &api.Task{Name: "t", Identities: []*api.WorkloadIdentity{id}})
			if err := b.conf.Dirs.BuildTask("t"); err != nil {
				t.Fatal(err)
			}
			outside := t.TempDir()
			id.Filepath = prepare(t, b.conf.Dirs.Task("t").Dir(), outside)
			ctx, cancel := context.WithCancel(t.Context())
			wait := b.run(ctx)
			b.until(t, "started or refused", func(s map[string]*api.TaskState) bool { return s["t"].State != api.TaskStatePending })
			cancel()
			_ = wait()
			if s := b.States()["t"]; s.Failed != (name == "parent" || name == "link") {
				t.Errorf("failed %v, events %v", s.Failed, events(s))
			}
			for _, dir := range []string{outside, b.conf.Dirs.Dir()} {
				if _, err := os.Lstat(filepath.Join(dir, "escaped")); !os.IsNotExist(err) {
					t.Errorf("a file was written in %s: %v", dir, err)
				}
			}
		})
	}
}

func TestStartWaitsForTheServersUntilTheTaskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, &api.Task{Name: "t", Identity: &api.WorkloadIdentity{Env: true}})
		for range 1000 {
			n.errs = append(n.errs, fault.New(fault.Unavailable, "no servers"))
		}
		wait := b.run(t.Context())
		time.Sleep(time.Minute)
		s := b.States()["t"]
		if s.State != api.TaskStatePending || !slices.Equal(events(s), []string{"Received", "Task Setup", "Waiting"}) || n.asked() < 10 || n.asked() > 60 {
			t.Errorf("after %d calls: %s %v", n.asked(), s.State, events(s))
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if s := b.States()["t"]; s.Failed || len(b.driver.started) > 0 {
			t.Errorf("state %+v, started %d", s, len(b.driver.started))
		}
	})
}

func TestRefusedIdentityFailsTheSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, &api.Task{Name: "t", Identity: &api.WorkloadIdentity{Env: true}})
		n.errs = []error{fault.New(fault.Denied, `identity "default" is refused: unknown`)}
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		s := b.States()["t"]
		if i := slices.Index(events(s), "Setup Failure"); !s.Failed || i < 0 || !strings.Contains(s.Events[i].DisplayMessage, `task t: sign identities: identity "default" is refused`) {
			t.Errorf("failed %v, events %v", s.Failed, events(s))
		}
	})
}

// ticking is a task whose identity is renewed every half minute.
func ticking(name string, id api.WorkloadIdentity) *api.Task {
	id.Name, id.TTL = "x", time.Minute
	return &api.Task{Name: name, Identities: []*api.WorkloadIdentity{&id}}
}

func TestIdentitiesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, ticking("noop", api.WorkloadIdentity{File: true}),
			ticking("signal", api.WorkloadIdentity{File: true, ChangeMode: "signal", ChangeSignal: "SIGUSR1"}),
			ticking("restart", api.WorkloadIdentity{Env: true, ChangeMode: "restart"}))
		wait := b.run(t.Context())
		b.until(t, "running", running("noop", "signal", "restart"))
		if n.asked() != 3 {
			t.Errorf("%d calls at the start", n.asked())
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n.asked() != 7 { // the restarted task is signed again
			t.Errorf("%d calls after the first renewal", n.asked())
		}
		s := b.States()
		if got := events(s["noop"]); !slices.Equal(got, []string{"Received", "Task Setup", "Started"}) {
			t.Errorf("noop: %v", got)
		}
		if e := s["signal"].Events[3]; e.Type != "Signaling" || e.DisplayMessage != "Task being sent signal SIGUSR1: Renewed identity x" {
			t.Errorf("signal: %+v", e)
		}
		if got := events(s["restart"]); !slices.Equal(got, []string{"Received", "Task Setup", "Started", "Restart Signaled", "Terminated", "Restarting", "Started"}) {
			t.Errorf("restart: %v", got)
		}
		for _, name := range []string{"noop", "signal"} {
			if got := b.file(t, name+"/secrets/nomad_x.jwt"); got < "a1/"+name+"/x/4" {
				t.Errorf("%s has the old file %q", name, got)
			}
		}
		b.Stop()
		_ = wait()
		calls := n.asked()
		time.Sleep(time.Hour)
		if n.asked() != calls {
			t.Error("renewal goes on after the end of the tasks")
		}
	})
}

func TestRenewalIsTriedUntilTheServersReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, ticking("t", api.WorkloadIdentity{File: true}))
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		n.mu.Lock()
		n.errs = []error{fault.New(fault.Unavailable, "no servers"), fault.New(fault.Denied, "unknown")}
		n.mu.Unlock()
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if got := b.file(t, "t/secrets/nomad_x.jwt"); got != "a1/t/x/4" {
			t.Errorf("file %q", got)
		}
		b.Stop()
		_ = wait()
	})
}

func TestRunningTaskIsRenewedByTheNextAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := identified(t, ticking("t", api.WorkloadIdentity{File: true, Env: true, ChangeMode: "restart"}))
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "running", running("t"))
		time.Sleep(20 * time.Second)
		cancel()
		_ = wait()
		b.renew(t)
		wait = b.run(t.Context())
		time.Sleep(9 * time.Second)
		if n.asked() != 1 || b.driver.starts() != 1 {
			t.Errorf("the restart of the agent: %d calls, %d starts", n.asked(), b.driver.starts())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n.asked() != 3 || b.driver.starts() != 2 {
			t.Errorf("half of the ttl after the start: %d calls, %d starts", n.asked(), b.driver.starts())
		}
		b.Stop()
		_ = wait()
	})
}
