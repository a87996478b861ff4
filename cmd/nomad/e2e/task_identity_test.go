package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// taskFile is the path of a file of the task "main" of an allocation.
func taskFile(a *kit.Agent, allocID, name string) string {
	return filepath.Join(a.Dir, "data", "alloc", allocID, "main", name)
}

// readWhenWritten waits until a file of the task has a content and returns it.
func readWhenWritten(t *testing.T, a *kit.Agent, allocID, name string) (text string) {
	t.Helper()
	a.Until(20*time.Second, name+" of the task", func() error {
		b, err := os.ReadFile(taskFile(a, allocID, name))
		if text = strings.TrimSpace(string(b)); err == nil && text == "" {
			err = errors.New("it is empty")
		}
		return err
	})
	return text
}

// throughSocket requests a path of the API through the socket of the task.
func throughSocket(a *kit.Agent, allocID, token, path string) (code int, body string, err error) {
	socket := taskFile(a, allocID, "secrets/api.sock")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "http://task"+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func item(t *testing.T, a *kit.Agent, path, value string) {
	t.Helper()
	if _, _, err := a.API.Variables().Create(&api.Variable{Path: path, Items: api.VariableItems{"password": value}}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestTaskReadsItsVariables reads variables in a task, through its socket with its identity.
func TestTaskReadsItsVariables(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	item(t, a, "nomad/jobs/web", "mine")
	item(t, a, "nomad/jobs/other", "theirs")
	job := kit.ShellJob("web", fmt.Sprintf(`export NOMAD_ADDR=$NOMAD_UNIX_ADDR
%[1]s var get -item password nomad/jobs/web > local/own 2>&1
%[1]s var get -item password nomad/jobs/other > local/other 2>&1
exec sleep 1000`, a.Binary))
	job.TaskGroups[0].Tasks[0].Identity = &api.WorkloadIdentity{Env: true, File: true}
	a.Register(job)
	id := a.Running("web", 1).ID
	if got := readWhenWritten(t, a, id, "local/own"); got != "mine" {
		t.Errorf("the variable of the job: %s", got)
	}
	if got := readWhenWritten(t, a, id, "local/other"); !strings.Contains(got, "403") || strings.Contains(got, "theirs") {
		t.Errorf("the variable of another job: %s", got)
	}
	token := readWhenWritten(t, a, id, "secrets/nomad_token")
	for _, c := range []struct {
		token string
		code  int
		body  string
	}{{"", http.StatusUnauthorized, "Unauthorized"}, {token[:len(token)-8] + "AAAAAAAA", http.StatusForbidden, "Forbidden"}, {token, http.StatusOK, ""}} {
		code, body, err := throughSocket(a, id, c.token, "/v1/var/nomad/jobs/web")
		if err != nil || code != c.code || c.body != "" && body != c.body {
			t.Errorf("request with the token %.10q: %d %q, %v", c.token, code, body, err)
		}
	}
	if _, _, err := a.As(token).Variables().Read("nomad/jobs/web", nil); err != nil {
		t.Error(err)
	}
	a.Stop("web", false)
	a.Until(10*time.Second, "the identity to be refused", func() error {
		_, _, err := a.As(token).Variables().Read("nomad/jobs/web", nil)
		if err == nil || !strings.Contains(err.Error(), "403") {
			return fmt.Errorf("the answer is %v", err)
		}
		return nil
	})
	a.Until(10*time.Second, "the socket to be removed", func() error {
		if _, err := os.Lstat(taskFile(a, id, "secrets/api.sock")); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("lstat: %v", err)
		}
		return nil
	})
}

// TestIdentitiesAreRenewed renews identities with a ttl, also after a restart of the agent, which restarts no task.
func TestIdentitiesAreRenewed(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	const ttl = 4 * time.Second
	signalled := kit.ShellJob("signalled", `trap 'echo x >> local/signals' USR1; echo $$ > local/pid; while true; do sleep 0.1; done`)
	signalled.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{
		{Name: "x", Audience: []string{"example.com"}, File: true, TTL: ttl, ChangeMode: "signal", ChangeSignal: "SIGUSR1"},
	}
	signalled.TaskGroups[0].Tasks[0].Identity = &api.WorkloadIdentity{File: true}
	restarted := kit.ShellJob("restarted", `echo "$NOMAD_TOKEN_x" > local/token; exec sleep 1000`)
	restarted.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{
		{Name: "x", Audience: []string{"example.com"}, Env: true, TTL: ttl, ChangeMode: "restart"},
	}
	a.Register(signalled)
	a.Register(restarted)
	s, r := a.Running("signalled", 1).ID, a.Running("restarted", 1).ID
	pid := readWhenWritten(t, a, s, "local/pid")
	renewed := func(id, file, old string) (text string) {
		t.Helper()
		a.Until(20*time.Second, file+" to be renewed", func() error {
			if text = readWhenWritten(t, a, id, file); text == old {
				return errors.New("it is the old one")
			}
			return nil
		})
		return text
	}
	token := renewed(s, "secrets/nomad_x.jwt", readWhenWritten(t, a, s, "secrets/nomad_x.jwt"))
	renewed(r, "local/token", readWhenWritten(t, a, r, "local/token"))
	readWhenWritten(t, a, s, "local/signals")
	a.Until(20*time.Second, "the restart of the task with a new token in its environment", func() error {
		if restarts(t, a, r) == 0 {
			return errors.New("no restart is reported")
		}
		return nil
	})

	a.Kill()
	a.Launch()
	token = renewed(s, "secrets/nomad_x.jwt", token)
	if got := readWhenWritten(t, a, s, "local/pid"); got != pid || restarts(t, a, s) != 0 {
		t.Errorf("the restart of the agent restarted the task: %s instead of %s", got, pid)
	}
	a.Until(20*time.Second, "the socket of the task", func() error {
		_, _, err := throughSocket(a, s, "", "/v1/status/leader")
		return err
	})
	// The socket needs a token without access control, too; a token for others is none.
	for token, want := range map[string]int{"": http.StatusUnauthorized, token: http.StatusForbidden, readWhenWritten(t, a, s, "secrets/nomad_token"): http.StatusOK} {
		if code, body, err := throughSocket(a, s, token, "/v1/status/leader"); err != nil || code != want {
			t.Errorf("socket after the restart of the agent, token %.10q: %d %s, %v", token, code, body, err)
		}
	}
	renewed(s, "secrets/nomad_x.jwt", token)
}

func restarts(t *testing.T, a *kit.Agent, id string) uint64 {
	t.Helper()
	alloc, _, err := a.API.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return alloc.TaskStates["main"].Restarts
}
